/**
 * Server-side apply: who owns which field of an object, and how an applied configuration is merged into it. The
 * semantics are those of Kubernetes (structured-merge-diff, and `managedfields` of apimachinery).
 *
 * - An object has `metadata.managedFields` from its first apply on. Other objects cost nothing.
 * - A field set is kept in its wire form, FieldsV1. Every operation is linear in the size of the object and of its
 *   sets, besides the sorting of a new set.
 * - Everything here is a pure function: the registry stores the result.
 */
export { applyConfiguration, keepTimes, type ManagedWrite, trackUpdate } from './field-manager.ts'
export { managerOfUserAgent, problemOfManager, readManagedFields } from './managed-fields.ts'
