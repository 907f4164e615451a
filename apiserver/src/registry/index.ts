/**
 * The meaning of writes: identity, versions, finalizers, deletion, unique values, validation and patches. The registry
 * builds the new object from the stored one and gives the store a single transaction. A refused write changes nothing,
 * an acknowledged write is durable, and no two objects hold the same unique value.
 */
export type * from './admission.ts'
export { AdmissionError } from './admission-error.ts'
export { managerOfUserAgent, problemOfManager } from './apply/index.ts'
export { deleteAll } from './delete-all.ts'
export * from './model-record.ts'
export type { NamespaceBounds, NamespaceGrowth, Room } from './namespace-bounds.ts'
export type { Namespaces } from './namespaces.ts'
export { applyJsonPatch, applyPatch, createMergePatch, type Patch, type PatchType } from './patch.ts'
export { deletePreconditions } from './preconditions.ts'
export * from './refusals.ts'
export * from './registry.ts'
export * from './reservation-rebuild.ts'
export * from './review.ts'
export * from './stored-version-claim.ts'
export * from './stored-version-migration.ts'
export type { MergeField, MergeType } from './strategic-merge/index.ts'
export type * from './subresource-form.ts'
export { timed } from './timed.ts'
export { isLarge, nextTurn } from './turns.ts'
export {
  decodeHolder,
  encodeHolder,
  type Holder,
  reservationKey,
  reservationsPrefix,
  uniqueLimits,
  withoutUniqueValue,
} from './unique-index.ts'
export { unknownFieldsOf, warningsOfFields } from './unknown-fields.ts'
export * from './write-options.ts'
