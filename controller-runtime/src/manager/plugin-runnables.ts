import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { RunnableMetrics } from '../metrics/runnable-metrics.ts'
import type { PluginRun, PluginRunContext, PluginRunnableOptions } from '../plugin/runnables.ts'
import type { RandomSource } from '../random.ts'
import type { Runnable, RunnableContext } from '../runnable.ts'
import { systemNamespace } from './lease.ts'
import type { RunnableFailures } from './runnable-failures.ts'
import { Schedule } from './schedule.ts'
import { ScheduleRecord } from './schedule-record.ts'
import { readTimetable } from './timetable.ts'

interface PluginRunnablesOptions {
  readonly plugin: string
  /** For runnables of every process. */
  readonly client: Client
  /** For runnables of the leader. */
  readonly leaderClient: Client
  /** For the records of schedules. */
  readonly recordClient: Client
  readonly log: Logger
  readonly clock: Clock
  readonly randomSource: RandomSource
  readonly metrics: RunnableMetrics | undefined
  readonly failures: RunnableFailures
}

/** Words joined by single dashes, so that `<plugin>--<name>` is unique. */
const namePattern = /^[a-z0-9]+(-[a-z0-9]+)*$/
const longestName = 63

/** The runnables and schedules that a plugin registers. Each is called `<plugin>/<name>` in the manager. */
export class PluginRunnables {
  readonly #options: PluginRunnablesOptions
  readonly #runnables = new Map<string, Runnable>()

  constructor(options: PluginRunnablesOptions) {
    this.#options = options
  }

  get all(): readonly Runnable[] {
    return [...this.#runnables.values()]
  }

  /** @throws TypeError for an invalid name, function or option */
  add(name: string, run: PluginRun, options: PluginRunnableOptions = {}): void {
    this.#check('runnable', name, run)
    const { leaderElected = true, ...others } = options
    const [unknown] = Object.keys(others)
    if (unknown !== undefined) {
      throw this.#invalid(
        `runnable ${name}: the option ${JSON.stringify(unknown)} is unknown; valid is leaderElected`,
      )
    }
    if (typeof leaderElected !== 'boolean')
      throw this.#invalid(`runnable ${name}: leaderElected must be true or false`)
    const { client, leaderClient, log, failures } = this.#options
    this.#runnables.set(name, {
      name: this.#fullName(name),
      needsLeader: leaderElected,
      log,
      observer: failures.observe(`runnable ${name}`, 'it fails and is restarted with back-off'),
      run: context => run(this.#contextOf(name, context, leaderElected ? leaderClient : client)),
    })
  }

  /** @throws TypeError for an invalid name, expression or function */
  schedule(name: string, expression: string, run: PluginRun): void {
    this.#check('schedule', name, run)
    const { plugin, leaderClient, recordClient, log, clock, metrics, failures } = this.#options
    const fullName = this.#fullName(name)
    let timetable: ReturnType<typeof readTimetable>
    try {
      timetable = readTimetable(expression)
    } catch (error) {
      if (!(error instanceof TypeError)) throw error
      throw this.#invalid(`schedule ${name}: ${error.message}`)
    }
    const record = new ScheduleRecord({
      client: recordClient.inNamespace(systemNamespace),
      clock,
      name: `schedule-${plugin}--${name}`,
      schedule: fullName,
    })
    const schedule = new Schedule({
      name: fullName,
      timetable,
      record,
      clock,
      log,
      metrics,
      observer: failures.observe(`schedule ${name}`, 'the time of its last run cannot be read or written'),
      runs: failures.observe(`schedule ${name}`, 'its last run has failed'),
      run: context => run(this.#contextOf(name, context, leaderClient)),
    })
    this.#runnables.set(name, schedule)
  }

  #contextOf(name: string, { signal, log }: RunnableContext, client: Client): PluginRunContext {
    const { clock, randomSource } = this.#options
    return { client, signal, log, clock, random: (what, bytes) => randomSource(`${name}/${what}`, bytes) }
  }

  #check(type: 'runnable' | 'schedule', name: unknown, run: unknown): asserts name is string {
    if (typeof name !== 'string' || name.length > longestName || !namePattern.test(name)) {
      throw this.#invalid(
        `the name ${JSON.stringify(name)} of a ${type} must be at most ${longestName} lowercase letters and digits, in words joined by '-'`,
      )
    }
    if (this.#runnables.has(name))
      throw this.#invalid(`a runnable or schedule named ${JSON.stringify(name)} already exists`)
    if (typeof run !== 'function') throw this.#invalid(`${type} ${name}: run must be a function`)
  }

  #fullName(name: string): string {
    return `${this.#options.plugin}/${name}`
  }

  #invalid(problem: string): TypeError {
    return new TypeError(`plugin ${this.#options.plugin}: ${problem}`)
  }
}
