import { errorMessage, isRecord } from '@setpoint/controller-runtime/api'
import { systemNamespace } from '@setpoint/controller-runtime/internal'
import { refusalOf } from './status-failures.ts'
import type { LeaderReport, PluginReport, StatusReport } from './status-report.ts'
import { type AskedServer, askServer, getFrom, type ServerAnswers } from './status-server.ts'

interface StatusParts {
  /** At least one. All belong to one control plane. */
  readonly servers: readonly AskedServer[]
  readonly reservedDomain: string
  /** The name of the lease of the controllers. */
  readonly lease: string
  /** Milliseconds since the epoch, for a server that sends no date. */
  readonly nowMs: number
}

/**
 * Asks running servers how they stand, by routes that every client can use: `/readyz`, `/metrics`, the `Plugin` objects
 * and the lease of the controllers. Never rejects: what cannot be asked is a problem, so that silence does not look
 * like health.
 */
export async function statusOf(parts: StatusParts): Promise<StatusReport> {
  const { servers, nowMs } = parts
  // The version of this list is no newer than what every healthy server has reached when it is asked afterwards.
  const { plugins, version, problems: pluginProblems } = await askPlugins(parts)
  const answers = await Promise.all(servers.map(server => askServer(server, nowMs)))
  const { leader, problems: leaderProblems } = await askLeader(parts, answers)
  const newest = Math.max(version, ...answers.map(({ position = 0 }) => position))
  const problems = new Set([
    ...answers.flatMap(({ problems }) => problems),
    ...leaderProblems,
    ...pluginProblems,
  ])
  return {
    well: problems.size === 0,
    problems: [...problems],
    servers: answers.map(({ server, position }) => ({
      ...server,
      behind: position === undefined ? null : newest - position,
    })),
    leader,
    store: answers.find(({ store }) => store !== null)?.store ?? null,
    plugins,
    certificates: answers.flatMap(({ certificates }) => certificates),
  }
}

/** Returns the parsed response of the first server that gives one, or the reasons why none does. */
async function askFirst(
  servers: readonly AskedServer[],
  path: string,
): Promise<{
  readonly body?: Readonly<Record<string, unknown>>
  readonly missing?: boolean
  readonly reason: string
}> {
  let reason = ''
  for (const server of servers) {
    try {
      const response = await getFrom(server, path)
      const body: unknown = response.status === 200 ? JSON.parse(response.body) : undefined
      if (isRecord(body)) return { body, reason: '' }
      if (response.status === 404) return { missing: true, reason: refusalOf(server.url, path, response) }
      reason ||= refusalOf(server.url, path, response)
    } catch (error) {
      reason ||= `${server.url} did not respond to ${path}: ${errorMessage(error)}`
    }
  }
  return { reason }
}

async function askPlugins({ servers, reservedDomain }: StatusParts): Promise<{
  plugins: PluginReport[]
  /** The version of the list; 0 without one. */
  version: number
  problems: string[]
}> {
  const { body, reason } = await askFirst(
    servers,
    `/apis/plugins.${reservedDomain}/v1/plugins?sort=metadata.name,asc`,
  )
  if (body === undefined)
    return { plugins: [], version: 0, problems: [`the plugins are not known: ${reason}`] }
  const items = Array.isArray(body.items) ? body.items : []
  const plugins = items.map(pluginOf)
  const metadata = isRecord(body.metadata) ? body.metadata : {}
  return {
    plugins,
    version: Number(metadata.resourceVersion ?? 0),
    problems: plugins.flatMap(problemsOfPlugin),
  }
}

function pluginOf(item: unknown): PluginReport {
  const { metadata, status } = isRecord(item) ? item : {}
  const { name } = isRecord(metadata) ? metadata : {}
  const { phase, version, message, conditions, problems } = isRecord(status) ? status : {}
  const reload = recordsIn(conditions).find(({ type }) => type === 'Reloaded')
  return {
    name: String(name),
    phase: typeof phase === 'string' ? phase : 'unknown',
    version: typeof version === 'string' ? version : null,
    message: typeof message === 'string' ? message : null,
    reloadFailure: reload?.status === 'False' ? String(reload.message) : null,
    problems: recordsIn(problems).map(problem => `${problem.source}: ${problem.message}`),
  }
}

function recordsIn(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}

function problemsOfPlugin({ name, phase, message, reloadFailure, problems }: PluginReport): string[] {
  if (phase === 'Failed' || phase === 'Starting')
    return [`the plugin ${name} is ${phase}${message === null ? '' : `: ${message}`}`]
  if (phase === 'Disabled') return []
  const found =
    reloadFailure === null
      ? []
      : [`the latest reload of the plugin ${name} failed, and its previous code runs: ${reloadFailure}`]
  const [first] = problems
  if (first === undefined) return found
  const more = problems.length === 1 ? '' : ` (and ${problems.length - 1} more)`
  return [...found, `the plugin ${name} has a problem: ${first}${more}`]
}

async function askLeader(
  { servers, lease }: StatusParts,
  answers: readonly ServerAnswers[],
): Promise<{ leader: LeaderReport | null; problems: string[] }> {
  // One process on the embedded store needs no election.
  if (answers.some(({ server, store }) => server.role === 'all' && store?.kind === 'embedded'))
    return { leader: null, problems: [] }
  const path = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/${lease}`
  const { body, missing, reason } = await askFirst(servers, path)
  const nobody = { lease, holder: null, renewedSeconds: null }
  if (missing)
    return {
      leader: nobody,
      problems: [`no process has ever held the lease ${lease}, so no controller runs`],
    }
  if (body === undefined) return { leader: null, problems: [`the leader is not known: ${reason}`] }
  const spec = isRecord(body.spec) ? body.spec : {}
  const holder =
    typeof spec.holderIdentity === 'string' && spec.holderIdentity !== '' ? spec.holderIdentity : null
  if (holder === null)
    return { leader: nobody, problems: [`no process holds the lease ${lease}, so no controller runs`] }
  const nowMs = Math.max(...answers.map(each => each.nowMs))
  const renewedSeconds = Math.max(0, Math.round((nowMs - Date.parse(String(spec.renewTime))) / 1000))
  const isExpired = renewedSeconds > Number(spec.leaseDurationSeconds)
  return {
    leader: { lease, holder, renewedSeconds },
    problems: isExpired
      ? [`the lease ${lease} was last renewed ${renewedSeconds} s ago by ${holder}, so no controller runs`]
      : [],
  }
}
