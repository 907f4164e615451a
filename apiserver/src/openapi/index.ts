/**
 * Describes the API in OpenAPI v3: one document for each group version, made from the models and the routes of plugins,
 * and the page `/docs` to browse them.
 *
 * - A document has only what is served: operations, parameters, media types, responses.
 * - Nothing is made before a client asks. Documents are kept as bytes until their models or routes change.
 * - Nothing here knows requests, or which methods a caller may use.
 */
export * from './api-documents.ts'
export * from './docs-page.ts'
