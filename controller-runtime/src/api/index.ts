/**
 * What both sides of the wire agree on: object, event and error shapes, the rules of names and labels, selectors,
 * and the declaration of models. It does no input or output and depends on nothing; the server imports it too.
 */
export * from './errors.ts'
export {
  type IndexDeclaration,
  type IndexSpec,
  IndexValueError,
  multiValueIndex,
  singleValueIndex,
} from './index-spec.ts'
export { isRecord } from './is-record.ts'
export * from './model.ts'
export * from './names.ts'
export * from './object.ts'
export * from './owners.ts'
export * from './propagation.ts'
export * from './schema.ts'
export * from './selector.ts'
export * from './version.ts'
export * from './watch-event.ts'
