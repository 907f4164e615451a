import type { Registry } from 'prom-client'
import { ScrapedMetrics } from '../metrics/index.ts'

/** Read from an election at each scrape. */
interface ElectionStatus {
  /** Name of the lease. */
  readonly lease: string
  readonly isLeader: boolean
  readonly slowPaths: number
}

/** Registers client-go's metrics of an election. @throws Error if the registry already has metrics of these names. */
export function describeElection(registry: Registry, election: ElectionStatus): void {
  const scraped = new ScrapedMetrics(registry)
  scraped.gauge(
    'leader_election_master_status',
    'Whether this process is the leader: 1 if it holds the lease, 0 on standby.',
    ['name'],
    () => [[election.isLeader ? 1 : 0, election.lease]],
  )
  scraped.counter(
    'leader_election_slowpath_total',
    'Total number of renewals that had to read the lease first.',
    ['name'],
    () => [[election.slowPaths, election.lease]],
  )
}
