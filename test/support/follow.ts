import type { Revision } from '@setpoint/controller-runtime/api'
import type { Change, Storage } from '../../apiserver/src/storage/contract.ts'

/** What a watch has delivered so far, and waiting for more of it without polling. */
export interface Follower {
  readonly changes: readonly Change[]
  /** Everything up to here has been delivered. */
  readonly reached: Revision
  /** Resolves once everything up to the revision has been delivered. @throws what the watch ended with before */
  reaches(revision: Revision): Promise<void>
  /** Resolves when the watch ends. @throws what it ends with */
  ended: Promise<void>
  stop(): Promise<void>
}

export function follow(storage: Storage, prefix: string, after: Revision): Follower {
  const controller = new AbortController()
  const changes: Change[] = []
  const waiting = new Set<{ revision: Revision; resolve: () => void; reject: (error: unknown) => void }>()
  let reached = after
  const run = async () => {
    for await (const batch of storage.watch(prefix, { after, signal: controller.signal })) {
      changes.push(...batch.changes)
      reached = batch.revision
      for (const waiter of waiting) {
        if (waiter.revision > reached) continue
        waiting.delete(waiter)
        waiter.resolve()
      }
    }
  }
  const ended = run()
  const giveUp = (error: unknown) => {
    for (const waiter of waiting) waiter.reject(error)
  }
  ended.then(() => giveUp(new Error(`the watch ended at revision ${reached}`)), giveUp)
  return {
    changes,
    get reached() {
      return reached
    },
    ended,
    reaches(revision) {
      if (reached >= revision) return Promise.resolve()
      return Promise.race([
        new Promise<void>((resolve, reject) => waiting.add({ revision, resolve, reject })),
        ended.then(() => {
          if (reached < revision)
            throw new Error(`the watch ended at revision ${reached}, before ${revision}`)
        }),
      ])
    },
    async stop() {
      controller.abort()
      await ended
    },
  }
}
