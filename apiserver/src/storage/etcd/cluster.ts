import { status } from '@grpc/grpc-js'
import type { Logger } from '@setpoint/controller-runtime'
import { CallError } from './call-error.ts'

/** A member, and the id of its cluster as etcd sends it. */
export interface ClusterMember {
  readonly endpoint: string
  readonly cluster: string
}

/**
 * The cluster of etcd that this process uses, for its whole life. Another cluster has other objects: clients would see
 * everything vanish.
 *
 *     unknown --the members that respond belong to one cluster--> known
 *        +--they belong to several: refused, asked again
 */
export class Cluster {
  readonly #log: Logger | undefined
  #known: ClusterMember | undefined
  /** Messages that were logged. Bounded by the endpoints and the clusters that they get. */
  readonly #logged = new Set<string>()

  constructor(log: Logger | undefined) {
    this.#log = log
  }

  /** Decides which cluster to use. @throws CallError if the members belong to several */
  meet(first: ClusterMember, others: readonly ClusterMember[]): void {
    const other = others.find(({ cluster }) => cluster !== first.cluster)
    if (other !== undefined)
      throw this.#refuse(
        other,
        `the endpoints of etcd belong to different clusters: ${nameOf(first)} and ${nameOf(other)}. Give the members of one cluster`,
      )
    this.#known = first
  }

  /** @throws CallError if the member belongs to another cluster than the known one */
  admit(member: ClusterMember): void {
    if (this.#known === undefined || this.#known.cluster === member.cluster) return
    throw this.#refuse(
      member,
      `${nameOf(member)}, but this server uses ${nameOf(this.#known)}. Restart the server if it was replaced on purpose`,
    )
  }

  #refuse({ endpoint }: ClusterMember, message: string): CallError {
    if (!this.#logged.has(message)) this.#log?.error({ endpoint }, message)
    this.#logged.add(message)
    return new CallError(status.UNAVAILABLE, message, endpoint, { unsent: true, wrongStore: true })
  }
}

function nameOf({ endpoint, cluster }: ClusterMember): string {
  return `${endpoint} of cluster ${BigInt(cluster).toString(16)}`
}
