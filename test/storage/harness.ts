import { test } from 'vitest'
import type { Storage } from '../../apiserver/src/storage/index.ts'

/** Gives the suite access to a store. */
export interface StorageHarness {
  /** Opens an empty store that nothing else writes to. Called once for each test. */
  open(): Promise<OpenedStorage>
}

export interface OpenedStorage {
  readonly storage: Storage
  /** Closes the store and opens it again over the same data. The earlier `Storage` is not used afterwards. */
  reopen(): Promise<Storage>
  /** Closes the store, if the test has not, and removes the data. Called once, also after a failure. */
  dispose(): Promise<void>
}

/** Returns a function that defines a test over a store of its own. */
export function guaranteesOf(harness: StorageHarness) {
  return (title: string, run: (opened: OpenedStorage) => Promise<void>) =>
    test(title, async () => {
      const opened = await harness.open()
      try {
        await run(opened)
      } finally {
        await opened.dispose()
      }
    })
}
