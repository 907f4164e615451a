import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { IndexProblem, ModelCache } from '../cache/index.ts'
import type { Logger } from '../log/index.ts'
import { type ServedModel, uniqueIndexName } from '../model/index.ts'
import type { Registry, Standing } from '../registry/index.ts'

export const reportDefaults = Object.freeze({
  /**
   * Milliseconds from a change to its report. An index function that fails for every object causes one report a second.
   */
  intervalMs: 1000,
  /** Most problems of one model in a report. */
  shownProblems: 20,
  /** Most characters of a value in a report. */
  shownValue: 100,
})

/** One problem for a plugin's status. */
export interface ReportedProblem {
  readonly source: string
  readonly message: string
}

/** The state of one model's indexes for a plugin's status. */
export interface IndexFindings {
  readonly standing: Standing
  readonly problems: readonly ReportedProblem[]
}

/**
 * Reports on one model's indexes: whether the unique ones are in force, and the objects whose index function fails or
 * whose unique value another object holds. The objects come from the cache, so the report survives a restart and
 * follows the writes of every server.
 */
export class IndexReport {
  readonly #cache: ModelCache
  readonly #served: ServedModel
  readonly #registry: Registry
  readonly #log: Logger
  readonly #changed: (findings: IndexFindings) => void
  readonly #signal: AbortSignal
  readonly #clock: Clock
  #state: 'idle' | 'waiting' | 'reading' = 'idle'
  #changedWhileReading = false
  #cancel: () => void = () => {}

  constructor(parts: {
    cache: ModelCache
    registry: Registry
    log: Logger
    signal: AbortSignal
    /** Called with the findings after they may have changed. */
    changed: (findings: IndexFindings) => void
    clock?: Clock
  }) {
    this.#cache = parts.cache
    this.#served = parts.cache.served
    this.#registry = parts.registry
    this.#log = parts.log
    this.#changed = parts.changed
    this.#signal = parts.signal
    this.#clock = parts.clock ?? systemClock
    this.#signal.addEventListener('abort', () => this.#cancel(), { once: true })
    this.#cache.observeProblems(() => this.#schedule())
    this.#registry.records.observe(this.#served, () => this.#schedule())
  }

  /** Reports now, or later if the store does not respond. Never rejects. */
  async report(): Promise<void> {
    this.#state = 'reading'
    this.#changedWhileReading = false
    try {
      const findings = await this.#read()
      if (this.#signal.aborted) return
      this.#changed(findings)
    } catch (error) {
      this.#log.debug(
        { resource: this.#served.resource, err: error },
        'failed to report on the indexes, retrying',
      )
      this.#changedWhileReading = true
    }
    this.#state = 'idle'
    if (this.#changedWhileReading) this.#schedule()
  }

  /** Returns the present findings. Reads the holders of values live. */
  async #read(): Promise<IndexFindings> {
    const { records } = this.#registry
    const { problems } = this.#cache
    // While another set is in force, values that are missing by this set are no fault of the data.
    const cached = problems.size === 0 ? records.standingOf(this.#served) : undefined
    const standing = cached ?? (await records.check(this.#served))
    // Another server is about to put the set in force. It does not notify us, so we look again.
    if (standing.name === 'recomputing') this.#changedWhileReading = true
    const found: ReportedProblem[] = []
    let hidden = 0
    for (const [name, ofObject] of problems) {
      for (const problem of ofObject) {
        if (problem.kind === 'unheld' && standing.name !== 'in force') continue
        if (found.length < reportDefaults.shownProblems) found.push(await this.#describe(name, problem))
        else hidden++
      }
    }
    const source = `indexes of ${this.#served.resource}`
    if (hidden > 0) found.push({ source, message: `${hidden} more of these problems are not listed` })
    if (standing.name !== 'in force')
      found.unshift({ source, message: `writes get 503, reads continue: ${standing.why}` })
    return { standing, problems: found }
  }

  async #describe(name: string, problem: IndexProblem): Promise<ReportedProblem> {
    const object = JSON.stringify(name)
    if (problem.kind === 'conversion') {
      const source = `conversion of ${this.#served.resource} to ${problem.version}`
      return { source, message: `fails for ${object}: ${problem.message}` }
    }
    const index = problem.kind === 'unheld' ? uniqueIndexName(problem.index) : problem.index
    const source = `index ${index} of ${this.#served.resource}`
    if (problem.kind === 'function') return { source, message: `fails for ${object}: ${problem.message}` }
    const { value } = problem
    const cut =
      value.length > reportDefaults.shownValue ? `${value.slice(0, reportDefaults.shownValue)}…` : value
    const has = this.#served.model.sensitive ? 'has a value' : `has the value ${JSON.stringify(cut)}`
    const holder = await this.#registry.holderOf(this.#served, problem.index, value, name)
    // Its holder has gone, or the function has changed: the set in force has no such value.
    if (holder === undefined || holder === name)
      return {
        source,
        message: `${object} ${has}, which it takes only when it is written; if the function of the index has changed, raise the version of the index, so that every object takes its value`,
      }
    return { source, message: `${object} ${has}, which ${JSON.stringify(holder)} holds` }
  }

  #schedule(): void {
    if (this.#signal.aborted) return
    this.#changedWhileReading = true
    if (this.#state !== 'idle') return
    this.#state = 'waiting'
    this.#cancel = this.#clock.setTimeout(() => void this.report(), reportDefaults.intervalMs, {
      unref: true,
    })
  }
}
