import { isRecord } from '@setpoint/controller-runtime/api'
import type { ComputedColumn } from '../../model/index.ts'

/** The time since an object was created. */
export const ageColumn: ComputedColumn = Object.freeze({
  name: 'Age',
  type: 'date',
  description: 'The time since the object was created.',
  cell: ({ metadata }: Readonly<Record<string, unknown>>) =>
    isRecord(metadata) ? metadata.creationTimestamp : undefined,
} as const)
