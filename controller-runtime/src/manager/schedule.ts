import { failureFields, isServerAway } from '../client/server-away.ts'
import { type Clock, sleep } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { RunnableMetrics } from '../metrics/runnable-metrics.ts'
import type { Runnable, RunnableContext, RunnableObserver } from '../runnable.ts'
import type { ScheduleRecord } from './schedule-record.ts'
import type { Timetable } from './timetable.ts'

/** Ms between two looks at the wall clock, which may jump. */
const longestSleepMs = 60_000

interface ScheduleOptions {
  /** `<plugin>/<name>` */
  readonly name: string
  readonly timetable: Timetable
  readonly record: ScheduleRecord
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: RunnableMetrics | undefined
  /** Observes the schedule itself. */
  readonly observer?: RunnableObserver
  /** Observes its runs. */
  readonly runs?: RunnableObserver
  run(context: RunnableContext): Promise<void> | void
}

/**
 * Runs a function at the times of a timetable, on the leader.
 *
 *     waiting ── due ──▶ claimed ──▶ running ── ends ──▶ waiting
 *                  └── the previous run goes on: skipped ──▶ waiting
 *
 * Guarantees
 * - Runs of one schedule never overlap, and each due time is run at most once over all processes.
 * - If due times were missed, because no process led or the process was suspended, one run makes up for all of them.
 *
 * Caveats
 * - A run that fails or is aborted is not repeated before the next due time.
 */
export class Schedule implements Runnable {
  readonly name: string
  readonly needsLeader = true
  readonly log: Logger
  readonly observer: RunnableObserver | undefined
  readonly #options: ScheduleOptions

  constructor(options: ScheduleOptions) {
    this.name = options.name
    this.log = options.log
    this.observer = options.observer
    this.#options = options
  }

  async run(context: RunnableContext): Promise<void> {
    const { record, clock, metrics } = this.#options
    const { signal, log } = context
    metrics?.addSchedule(this.name)
    let running: Promise<void> | undefined
    try {
      let lastMs = await record.read(signal)
      for (;;) {
        const dueMs = await this.#nextDue(lastMs, signal)
        lastMs = clock.now()
        if (running !== undefined) {
          metrics?.due(this.name, 'skipped')
          log.warn(
            { due: new Date(dueMs).toISOString() },
            'the previous run goes on, skipping a scheduled run',
          )
        } else if (await record.claim(dueMs, signal)) {
          running = this.#runOnce(context).finally(() => {
            running = undefined
          })
        }
      }
    } finally {
      await running
      // The next leader runs it.
      if (signal.aborted) this.#options.runs?.recovered()
    }
  }

  /** Waits for the first due time after `lastMs`, and returns it. */
  async #nextDue(lastMs: number, signal: AbortSignal): Promise<number> {
    const { timetable, clock } = this.#options
    let afterMs = lastMs
    for (;;) {
      const nowMs = clock.now()
      // A clock that is set back must not stop the schedule until it has caught up. The record prevents repetitions.
      afterMs = Math.min(afterMs, nowMs)
      const dueMs = timetable.next(afterMs)
      if (dueMs <= nowMs) {
        signal.throwIfAborted()
        return dueMs
      }
      await sleep(clock, Math.min(dueMs - nowMs, longestSleepMs), signal)
    }
  }

  /** Never rejects. */
  async #runOnce(context: RunnableContext): Promise<void> {
    const { run, metrics, runs } = this.#options
    const { signal, log } = context
    try {
      await run(context)
      metrics?.due(this.name, 'success')
      runs?.recovered()
    } catch (error) {
      if (signal.aborted) {
        log.debug({ err: error }, 'scheduled run aborted')
        return
      }
      metrics?.due(this.name, 'error')
      log.error(failureFields(error), 'scheduled run failed')
      if (!isServerAway(error)) runs?.failed(error)
    }
  }
}
