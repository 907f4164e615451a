import { Counter, Gauge, type Registry } from 'prom-client'

/** Read from an election at each scrape. */
interface ElectionStatus {
  /** Name of the lease. */
  readonly lease: string
  readonly isLeader: boolean
  readonly slowPaths: number
}

/** Registers client-go's metrics of an election. @throws Error if the registry already has metrics of these names. */
export function describeElection(registry: Registry, election: ElectionStatus): void {
  const registers = [registry]
  new Gauge({
    name: 'leader_election_master_status',
    help: 'Whether this process is the leader: 1 if it holds the lease, 0 on standby.',
    labelNames: ['name'],
    registers,
    collect() {
      this.set({ name: election.lease }, election.isLeader ? 1 : 0)
    },
  })
  new Counter({
    name: 'leader_election_slowpath_total',
    help: 'Total number of renewals that had to read the lease first.',
    labelNames: ['name'],
    registers,
    collect() {
      this.reset()
      this.inc({ name: election.lease }, election.slowPaths)
    },
  })
}
