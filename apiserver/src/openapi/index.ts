/**
 * Describes the API in OpenAPI v3: one document for each group version, made from the models and the routes of plugins,
 * and the page `/docs` to browse them. For older clients, one document of Swagger 2.0 is converted from the same parts.
 *
 * - A document has only what is served: operations, parameters, media types, responses.
 * - Nothing is made before a client asks. Documents are kept as bytes until their models or routes change.
 * - Nothing here knows requests, or which methods a caller may use.
 */
export * from './api-documents.ts'
export * from './docs-page.ts'
export { toOpenApiSchema } from './openapi-schema.ts'
export type { SwaggerForm } from './swagger-document.ts'
