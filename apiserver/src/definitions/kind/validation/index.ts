/**
 * What a definition must be like, by concept: names, versions, schemas, defaults, rules and conversion.
 *
 * It needs the engine of rules, so it is imported at the first write of a definition.
 */
export { inspectDefinition } from './validate.ts'
