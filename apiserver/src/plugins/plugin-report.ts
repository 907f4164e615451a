import { deepEqual, shorten } from '../model/index.ts'
import type { IndexFindings, ReportedProblem } from './index-report.ts'
import type { PluginPhase, PluginStatus } from './plugin-kind.ts'
import type { PluginStatuses } from './plugin-status.ts'
import type { MigrationState } from './version-migration.ts'

export const pluginReportDefaults = Object.freeze({
  /** Most problems of shipped files in a status. The log has all of them. */
  shownProblems: 20,
  /** Most characters of the failure of a runnable or schedule. The log has the whole error. */
  failureCharacters: 300,
  /** Most characters of a `spec.reload` in the message of a condition. */
  valueCharacters: 100,
})

type Facts = Pick<PluginStatus, 'source' | 'version' | 'kinds' | 'routes'>

/** The state of one kind's objects in the store. */
interface StoredObjects {
  /** `<plural>.<group>` */
  readonly kind: string
  readonly migration: MigrationState | undefined
  readonly violation: ReportedProblem | undefined
}

/** What a plugin's status says besides its phase. */
interface Details {
  /** Why the plugin is in this phase. Default: what the phase means. */
  readonly why?: string
  /** The indexes of its kinds. */
  readonly findings: readonly IndexFindings[]
  readonly problems: readonly ReportedProblem[]
  readonly stored: readonly StoredObjects[]
}

const readiness = {
  Starting: 'Unknown',
  Started: 'True',
  Failed: 'False',
  Disabled: 'False',
} as const

/** Composes the status of one plugin and publishes it if it has changed. */
export class PluginReport {
  readonly #name: string
  readonly #statuses: PluginStatuses
  /** What is known of the plugin's code and its source. */
  #facts: Facts
  /** The status that was published last. */
  #status: PluginStatus = {}
  #reload: { readonly hasFailed: boolean; readonly message: string } | undefined

  constructor(name: string, source: string, statuses: PluginStatuses) {
    this.#name = name
    this.#statuses = statuses
    this.#facts = { source }
  }

  get phase(): PluginPhase | undefined {
    return this.#status.phase
  }

  get message(): string | undefined {
    return this.#status.message
  }

  /** Sets facts of the plugin's code for the next `publish`. */
  describe(facts: Facts): void {
    this.#facts = { ...this.#facts, ...facts }
  }

  /**
   * Sets the outcome of the latest reload for the next `publish`, after `describe`.
   * @param asked the `spec.reload` that asked for it; undefined if the program did
   * @param failure undefined if it succeeded
   */
  reloaded(asked: string | number | undefined, failure: string | undefined): void {
    const { valueCharacters } = pluginReportDefaults
    const by = asked === undefined ? '' : `spec.reload ${shorten(JSON.stringify(asked), valueCharacters)}: `
    const message = `${by}${failure ?? `version ${this.#facts.version} was loaded`}`
    this.#reload = { hasFailed: failure !== undefined, message }
  }

  publish(phase: PluginPhase, { why, findings, problems, stored }: Details): void {
    const standing = findings.find(each => each.standing.name !== 'in force')?.standing
    const indexes = describeStanding(standing)
    const inForce = indexes.reason === 'InForce'
    const message = why ?? (inForce ? 'its kinds are served' : `its kinds are served, but ${indexes.message}`)
    const shown = problems.slice(0, pluginReportDefaults.shownProblems)
    if (problems.length > shown.length) {
      shown.push({
        source: 'more',
        message: `${problems.length - shown.length} further problems are in the log`,
      })
    }
    const conditions = [this.#condition('Ready', readiness[phase], phase, message)]
    if (phase === 'Started') {
      const { reason, message: text } = indexes
      conditions.push(this.#condition('UniqueIndexesInForce', inForce ? 'True' : 'False', reason, text))
    }
    if (this.#reload !== undefined) {
      const { hasFailed, message } = this.#reload
      conditions.push(
        hasFailed
          ? this.#condition('Reloaded', 'False', 'ReloadFailed', message)
          : this.#condition('Reloaded', 'True', 'Reloaded', message),
      )
    }
    const migrations = stored.flatMap(({ kind, migration }) => {
      if (migration === undefined) return []
      const { to, total, done, failed } = migration
      return [{ kind, to, total, done, failed }]
    })
    const ofIndexes = findings.flatMap(each => each.problems)
    const ofStored = stored.flatMap(problemsOf)
    const others = [...ofIndexes, ...ofStored]
    const status: PluginStatus = {
      ...this.#facts,
      phase,
      message,
      conditions,
      problemCount: problems.length + others.length,
      problems: [...shown, ...others],
      ...(migrations.length > 0 && { migrations }),
    }
    if (deepEqual(status, this.#status)) return
    this.#status = status
    this.#statuses.publish(this.#name, status, {
      index: ofIndexes.length,
      stored: ofStored.length,
      other: problems.length,
    })
  }

  #condition(type: string, status: 'True' | 'False' | 'Unknown', reason: string, message: string): Condition {
    const previous = this.#status.conditions?.find(condition => condition.type === type)
    const lastTransitionTime =
      previous?.status === status ? previous.lastTransitionTime : new Date().toISOString()
    return { type, status, reason, message, lastTransitionTime }
  }
}

function problemsOf({ kind, migration, violation }: StoredObjects): ReportedProblem[] {
  const failures = (migration?.failures ?? []).map(({ name, message }) => ({
    source: `migration of ${kind} to ${migration?.to}`,
    message: `${JSON.stringify(name)} cannot be migrated: ${message}`,
  }))
  return violation === undefined ? failures : [violation, ...failures]
}

type Condition = NonNullable<PluginStatus['conditions']>[number]

function describeStanding(standing: IndexFindings['standing'] | undefined): {
  reason: string
  message: string
} {
  if (standing === undefined || standing.name === 'in force')
    return { reason: 'InForce', message: 'its unique indexes are in force' }
  return {
    reason: standing.name === 'superseded' ? 'Superseded' : 'Recomputing',
    message: `writes of some of its kinds get 503: ${standing.why}`,
  }
}
