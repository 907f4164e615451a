import type { Revision } from '@setpoint/controller-runtime/api'
import type { Change, Storage } from '../../apiserver/src/storage/contract.ts'

/** Records the events of a watch, and waits for more without polling. */
export interface Follower {
  readonly changes: readonly Change[]
  /** The revision up to which every event has arrived. */
  readonly reached: Revision
  /** Resolves when every event up to the revision has arrived. @throws the watch's error if it ends first */
  reaches(revision: Revision): Promise<void>
  /** Resolves when the watch ends. @throws the watch's error */
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
