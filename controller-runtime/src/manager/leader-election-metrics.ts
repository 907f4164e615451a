import { Counter, Gauge, type Registry } from 'prom-client'

/** What is asked of an election when somebody scrapes. */
export interface ElectionStatus {
  /** Name of the lease. */
  readonly lease: string
  readonly isLeader: boolean
  readonly slowPaths: number
}

/** Tells of an election under the names that client-go has. @throws Error when the registry has metrics of these names already. */
export function describeElection(registry: Registry, election: ElectionStatus): void {
  const registers = [registry]
  new Gauge({
    name: 'leader_election_master_status',
    help: '1 where this process holds the lease, 0 where it stands by.',
    labelNames: ['name'],
    registers,
    collect() {
      this.set({ name: election.lease }, election.isLeader ? 1 : 0)
    },
  })
  new Counter({
    name: 'leader_election_slowpath_total',
    help: 'Renewals of the lease that had to read it first.',
    labelNames: ['name'],
    registers,
    collect() {
      this.reset()
      this.inc({ name: election.lease }, election.slowPaths)
    },
  })
}
