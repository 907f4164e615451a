import { Counter, Gauge, type Registry } from 'prom-client'

export const scheduleResults = ['success', 'error', 'skipped'] as const
/** The label `result` of `setpoint_schedule_runs_total`. */
export type ScheduleResult = (typeof scheduleResults)[number]

/** The metrics of runnables and schedules. A runnable has series from `add` to `remove`. */
export class RunnableMetrics {
  readonly #running: Gauge<'runnable'>
  readonly #failures: Counter<'runnable'>
  readonly #runs: Counter<'schedule' | 'result'>

  /** @throws Error if the registry already has metrics of these names. */
  constructor(registry: Registry) {
    const registers = [registry]
    this.#running = new Gauge({
      name: 'setpoint_runnable_running',
      help: '1 while a runnable runs in this process, 0 while it stands by, waits for its restart or has ended.',
      labelNames: ['runnable'],
      registers,
    })
    this.#failures = new Counter({
      name: 'setpoint_runnable_failures_total',
      help: 'Total number of failures of a runnable. It is restarted after each.',
      labelNames: ['runnable'],
      registers,
    })
    this.#runs = new Counter({
      name: 'setpoint_schedule_runs_total',
      help: 'Total number of due runs of a schedule per result: skipped means that the previous run had not ended.',
      labelNames: ['schedule', 'result'],
      registers,
    })
  }

  add(runnable: string): void {
    this.#running.set({ runnable }, 0)
    this.#failures.inc({ runnable }, 0)
  }

  running(runnable: string, isRunning: boolean): void {
    this.#running.set({ runnable }, isRunning ? 1 : 0)
  }

  failed(runnable: string): void {
    this.#failures.inc({ runnable })
  }

  addSchedule(schedule: string): void {
    for (const result of scheduleResults) this.#runs.inc({ schedule, result }, 0)
  }

  due(schedule: string, result: ScheduleResult): void {
    this.#runs.inc({ schedule, result })
  }

  /** Removes the series of a runnable, which may be a schedule. */
  remove(name: string): void {
    this.#running.remove({ runnable: name })
    this.#failures.remove({ runnable: name })
    for (const result of scheduleResults) this.#runs.remove({ schedule: name, result })
  }
}
