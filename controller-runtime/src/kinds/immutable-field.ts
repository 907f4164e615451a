import type { Schema } from '../api/schema.ts'

/** The field `immutable` of `ConfigMap` and `Secret`. */
export const immutableField = Object.freeze({
  type: 'boolean',
  description: 'If true, only the metadata can change, and the field cannot be reset.',
} as const satisfies Schema)
