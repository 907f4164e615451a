/** Keywords of our own that `schema-compiler.ts` adds to ajv. Compilers without them ignore them. */

/** Bounds the errors of a value. */
export const errorBudget = 'setpointErrorBudget'

/** Names the lists whose items are distinct. Its value is a `DistinctItems`. */
export const listTypeKeyword = 'setpointListType'

/** Marks the metadata of embedded resources. */
export const embeddedMetadataKeyword = 'setpointEmbeddedMetadata'

/** Matches strings. Its value is a `Pattern`, so that the validators of a schema share its states. */
export const patternKeyword = 'setpointPattern'
