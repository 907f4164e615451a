/** How a control plane stands. It is the document of `setpoint status --output json`. */
export interface StatusReport {
  /** True if there are no problems. */
  readonly well: boolean
  /** What needs attention, the worst first. */
  readonly problems: readonly string[]
  readonly servers: readonly ServerReport[]
  /** The leader of the controllers. Null without an election: a server with the embedded store runs them itself. */
  readonly leader: LeaderReport | null
  /** Null if no server told. */
  readonly store: StoreReport | null
  readonly plugins: readonly PluginReport[]
  readonly certificates: readonly CertificateReport[]
}

export interface ServerReport {
  readonly url: string
  /** Null if it is not known: the server cannot be reached, or refuses `/metrics`. */
  readonly version: string | null
  readonly role: string | null
  readonly ready: boolean
  /** True if the controllers run in this process. Null without an election, and if it is not known. */
  readonly leads: boolean | null
  /** Versions by which its caches are behind the newest one that any server has shown. Null if it is not known. */
  readonly behind: number | null
  /** The delay of its event loop, which few turns exceed (99 of 100), in seconds. */
  readonly eventLoopSeconds: number | null
}

export interface LeaderReport {
  readonly lease: string
  /** Null if nobody holds the lease. */
  readonly holder: string | null
  /** Seconds since the holder renewed the lease, by the server's clock. */
  readonly renewedSeconds: number | null
}

export interface StoreReport {
  readonly kind: string
  readonly sizeBytes: number | null
  readonly usedBytes: number | null
  /** Null for the embedded store, which only the disk bounds. */
  readonly quotaBytes: number | null
  /** Null for etcd. */
  readonly diskFreeBytes: number | null
  readonly full: boolean
}

export interface PluginReport {
  readonly name: string
  readonly phase: string
  readonly version: string | null
  readonly message: string | null
  /** Why the latest reload failed, after which the previous code goes on. Null if it succeeded, or there was none. */
  readonly reloadFailure: string | null
  readonly problems: readonly string[]
}

export interface CertificateReport {
  /** URL of the server that uses it. */
  readonly server: string
  readonly certificate: string
  /** RFC 3339. */
  readonly expires: string
}
