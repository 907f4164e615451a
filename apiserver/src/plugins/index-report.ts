import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { IndexProblem, ModelCache } from '../cache/index.ts'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import type { Registry, Standing } from '../registry/index.ts'

export const reportDefaults = Object.freeze({
  /** Milliseconds from a change to the report of it, so that an index function that fails for all costs one a second. */
  intervalMs: 1000,
  /** Problems of one model that a report lists. */
  shownProblems: 20,
  /** Characters of a value that a report shows. */
  shownValue: 100,
})

/** Something for a plugin's status to list. */
export interface ReportedProblem {
  readonly source: string
  readonly message: string
}

/** What a plugin's status says about the indexes of one model. */
export interface IndexFindings {
  readonly standing: Standing
  readonly problems: readonly ReportedProblem[]
}

/**
 * Keeps an eye on one model's indexes: whether its unique ones are in force, which objects an index function cannot
 * handle, and which have a unique value that another object holds. What is said of objects comes from the cache, so
 * that it is the same after a restart, and follows what any server writes.
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
    /** Called with the findings, some time after they may have changed. */
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

  /** Reports now; later again if the store does not answer. Never rejects. */
  async report(): Promise<void> {
    this.#state = 'reading'
    this.#changedWhileReading = false
    try {
      const findings = await this.#read()
      if (this.#signal.aborted) return
      this.#changed(findings)
    } catch (error) {
      this.#log.debug({ resource: this.#served.resource, err: error }, 'the indexes cannot be reported yet')
      this.#changedWhileReading = true
    }
    this.#state = 'idle'
    if (this.#changedWhileReading) this.#schedule()
  }

  /** The present findings, from live reads where they say what another object holds. */
  async #read(): Promise<IndexFindings> {
    const { records } = this.#registry
    const { problems } = this.#cache
    // By another set objects hold other values: what they lack by this one says nothing of the data.
    const standing = problems.size === 0 ? records.standingOf(this.#served) : undefined
    const sure = standing ?? (await records.check(this.#served))
    // Somebody else will put it in force, which changes nothing that would be noticed here.
    if (sure.name === 'recomputing') this.#changedWhileReading = true
    const found: ReportedProblem[] = []
    let hidden = 0
    for (const [name, ofObject] of problems) {
      for (const problem of ofObject) {
        if (problem.kind === 'unheld' && sure.name !== 'in force') continue
        if (found.length < reportDefaults.shownProblems) found.push(await this.#describe(name, problem))
        else hidden++
      }
    }
    const source = `indexes of ${this.#served.resource}`
    if (hidden > 0) found.push({ source, message: `${hidden} more of these problems are not listed` })
    if (sure.name !== 'in force')
      found.unshift({ source, message: `writes answer 503, reads go on: ${sure.why}` })
    return { standing: sure, problems: found }
  }

  async #describe(name: string, problem: IndexProblem): Promise<ReportedProblem> {
    const { index } = problem
    const source = `index ${index} of ${this.#served.resource}`
    const object = JSON.stringify(name)
    if (problem.kind === 'function') return { source, message: `cannot handle ${object}: ${problem.message}` }
    const { value } = problem
    const shown = JSON.stringify(
      value.length > reportDefaults.shownValue ? `${value.slice(0, reportDefaults.shownValue)}…` : value,
    )
    const holder = await this.#registry.holderOf(this.#served, index, value)
    if (holder === undefined || holder === name)
      return { source, message: `${object} has the value ${shown}, which it gets when it is changed` }
    return { source, message: `${object} has the value ${shown}, which ${JSON.stringify(holder)} holds` }
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
