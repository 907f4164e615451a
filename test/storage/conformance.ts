/**
 * The guarantees of `Storage`, as tests. Every store runs them from its own test file:
 *
 *     storageConformance('embedded', { open: async () => ({ storage, reopen, dispose }) })
 *
 * The tests assert only the promises of the contract. Where the contract leaves a choice, such as the order of changes
 * within a revision or the size of pages and batches, they accept any.
 */
import { describe, expect } from 'vitest'
import { closingConformance } from './closing.ts'
import { compactionConformance } from './compaction.ts'
import type { StorageHarness } from './harness.ts'
import { modelConformance } from './model.ts'
import { readingConformance } from './reading.ts'
import { transactionConformance } from './transactions.ts'
import { watchConformance } from './watching.ts'

export type { OpenedStorage, StorageHarness } from './harness.ts'

// By itself, `toEqual` compares values byte by byte, which takes ten seconds for the largest ones.
expect.addEqualityTesters([
  (a: unknown, b: unknown) =>
    a instanceof Uint8Array && b instanceof Uint8Array ? Buffer.compare(a, b) === 0 : undefined,
])

export function storageConformance(name: string, harness: StorageHarness): void {
  describe(name, () => {
    readingConformance(harness)
    transactionConformance(harness)
    watchConformance(harness)
    compactionConformance(harness)
    closingConformance(harness)
    modelConformance(harness)
  })
}
