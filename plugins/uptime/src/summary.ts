import {
  type Client,
  escapeSelectorValue,
  type RouteRequest,
  type RouteResponse,
} from '@setpoint/controller-runtime'
import { Probe, type ProbeState, probeStates } from './probe.ts'

/** Number of probes by state. */
export interface Summary {
  readonly total: number
  readonly states: Readonly<Record<ProbeState, number>>
  /** The version that they were counted at. */
  readonly version: string
}

/**
 * `GET /apis/console.api.uptime.example.com/v1alpha1/summary`, of all probes, or with `?tag=` of those with that tag.
 */
export async function handleSummary({ query, client, signal }: RouteRequest): Promise<RouteResponse> {
  const tag = query.get('tag')
  const selectors = tag === null ? [] : [`spec.tags=${escapeSelectorValue(tag)}`]
  return { body: await summarize(client, selectors, signal) }
}

/** Counts by the totals of lists, which an index provides without reading the probes. */
async function summarize(
  client: Client,
  selectors: readonly string[],
  signal: AbortSignal,
): Promise<Summary> {
  const all = await client.list(Probe, { fieldSelector: selectors, size: 1, signal })
  const { version } = all.metadata
  const count = async (state: ProbeState): Promise<number> => {
    const { total = 0 } = await client.list(Probe, {
      fieldSelector: [...selectors, `status.state=${state}`],
      size: 1,
      // At one version, so that the numbers add up.
      resourceVersion: version,
      resourceVersionMatch: 'Exact',
      signal,
    })
    return total
  }
  const counts = await Promise.all(probeStates.map(async state => [state, await count(state)] as const))
  const states: Record<ProbeState, number> = { Up: 0, Down: 0, Unknown: 0 }
  for (const [state, number] of counts) states[state] = number
  return { total: all.total ?? 0, states, version }
}
