import { isDeepStrictEqual } from 'node:util'
import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { isApiError } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import { keyOfEntry, type LogFollower } from '../../cache/index.ts'
import type { Logger } from '../../log/index.ts'
import type { ServedModel } from '../../model/index.ts'
import { type Registry, serviceWriteOptions } from '../../registry/index.ts'
import type { Quota, QuotaBounds } from './quota-bounds.ts'

export const quotaStatusDefaults = Object.freeze({
  /** Milliseconds between two looks at the quotas. */
  intervalMs: 1_000,
  /** Statuses written after one look; the others are written after the next. Every server writes so many. */
  writes: 20,
})

interface QuotaStatusParts {
  /** The kind ResourceQuota. */
  readonly kind: ServedModel
  readonly quotas: Pick<QuotaBounds, 'all' | 'usage'>
  readonly follower: Pick<LogFollower, 'position'>
  readonly registry: Pick<Registry, 'patch'>
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * Keeps the status of the ResourceQuotas: the limits, and what is used of those that are enforced. Nothing is decided
 * by it.
 *
 * Every server does so: a status that another one has written needs no write. Only while a namespace changes all the
 * time may each of them write its status once in an interval.
 */
export class QuotaStatus {
  readonly #parts: QuotaStatusParts
  readonly #clock: Clock

  constructor(parts: QuotaStatusParts) {
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
  }

  /** Works until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { follower, log } = this.#parts
    let isComplete = false
    for (let seen = follower.position; !signal.aborted; ) {
      await sleep(this.#clock, quotaStatusDefaults.intervalMs, signal).catch(() => {})
      const { position } = follower
      // Without a change in the store there is nothing to look at.
      if (signal.aborted || (isComplete && position === seen)) continue
      seen = position
      try {
        isComplete = await this.#writeAll(signal)
      } catch (error) {
        isComplete = false
        if (!signal.aborted) log.warn({ err: error }, 'failed to write the status of a quota, retrying')
      }
    }
  }

  /** Returns false if some statuses are left to write. */
  async #writeAll(signal: AbortSignal): Promise<boolean> {
    const { quotas } = this.#parts
    const read = quotas.usage.reader()
    const yielder = new Yielder(this.#clock)
    const stale: { quota: Quota; status: object }[] = []
    for (const quota of quotas.all()) {
      await yielder.pause()
      const status = statusOf(quota, name => read(quota.namespace, name))
      if (!isDeepStrictEqual(status, quota.status)) stale.push({ quota, status })
    }
    // Those that were written the longest time ago come first.
    stale.sort((one, other) => one.quota.entry.revision - other.quota.entry.revision)
    for (const { quota, status } of stale.slice(0, quotaStatusDefaults.writes)) {
      signal.throwIfAborted()
      await this.#write(quota, status)
    }
    return stale.length <= quotaStatusDefaults.writes
  }

  async #write({ entry, uid }: Quota, status: object): Promise<void> {
    const { kind, registry } = this.#parts
    const document = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ]
    const patch = { type: 'json', document } as const
    await registry.patch(kind, keyOfEntry(entry), patch, 'status', serviceWriteOptions).catch(error => {
      // It has been deleted, or is another one of its name.
      if (!isApiError(error, 'NotFound', 'Invalid')) throw error
    })
  }
}

function statusOf({ hard }: Quota, read: (name: string) => number | undefined): object {
  const names = [...hard.keys()].sort()
  const used = names.flatMap(name => {
    const amount = read(name)
    return amount === undefined ? [] : [[name, String(amount)] as const]
  })
  return {
    hard: Object.fromEntries(names.map(name => [name, hard.get(name)?.text])),
    used: Object.fromEntries(used),
  }
}
