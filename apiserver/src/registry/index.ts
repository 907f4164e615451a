/**
 * What a write means: identity, versions, finalizers, deletion, unique values, validation and patches. The registry
 * makes the new object from the stored one and hands the store a single transaction; it promises that a refusal
 * changed nothing, that an acknowledged write is durable, and that no two objects hold one unique value.
 */
export * from './refusals.ts'
export * from './registry.ts'
export * from './reservation-rebuild.ts'
export * from './stored-object.ts'
export * from './unique-index-record.ts'
export * from './write-options.ts'
