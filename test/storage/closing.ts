import { describe, expect } from 'vitest'
import { drain, within } from './follower.ts'
import { guaranteesOf, type StorageHarness } from './harness.ts'
import { change, commit, put } from './operations.ts'

export function closingConformance(harness: StorageHarness): void {
  const guarantee = guaranteesOf(harness)

  describe('closing', () => {
    guarantee('close ends every watch, rejects later calls and is idempotent', async ({ storage }) => {
      const revision = await commit(storage, [put('a', '1')])
      const idle = drain(storage.watch('', { after: revision, signal: new AbortController().signal }))
      await storage.get('a')
      await storage.close()
      await storage.close()
      await within(idle, 'the end of a watch on a closed store')
      await expect(storage.get('a')).rejects.toThrow()
      await expect(storage.list('')).rejects.toThrow()
      await expect(storage.head()).rejects.toThrow()
      await expect(storage.transact(change([put('a', '2')]))).rejects.toThrow()
    })
  })
}
