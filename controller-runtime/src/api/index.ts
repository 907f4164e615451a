/**
 * Types and rules that client and server share: object, event and error shapes, names and labels, selectors,
 * and the declaration of models. No I/O and no dependencies; the server imports it too.
 */
export {
  type Action,
  type ActionDeclaration,
  type ActionInput,
  type ActionOutput,
  defineAction,
  type NoInput,
} from './action.ts'
export { refuseBareName } from './bare-name.ts'
export type { DeepMutable, DeepReadonly } from './deep-readonly.ts'
export { defaultIndexNames } from './default-indexes.ts'
export { errorMessage } from './error-message.ts'
export * from './errors.ts'
export * from './hooks.ts'
export {
  type IndexDeclaration,
  type IndexSpec,
  IndexValueError,
  multiValueIndex,
  singleValueIndex,
} from './index-spec.ts'
export { isRecord } from './is-record.ts'
export { type KeysOf, nearestName, refuseUnknownKeys, unknownKeys } from './known-keys.ts'
export * from './model.ts'
export {
  type ContentSchema,
  type ConvertedContent,
  type ConvertibleObject,
  compareApiVersions,
  type ModelVersion,
  type VersionDeclaration,
} from './model-version.ts'
export * from './names.ts'
export * from './object.ts'
export * from './object-key.ts'
export * from './owners.ts'
export type { PrinterColumn } from './printer-column.ts'
export * from './propagation.ts'
export * from './schema.ts'
export * from './selector.ts'
export * from './version.ts'
export * from './watch-event.ts'
