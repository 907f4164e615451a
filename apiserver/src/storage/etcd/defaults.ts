/** Bounds and times of the etcd storage. All times in milliseconds. */
export const etcdDefaults = Object.freeze({
  /** Deadline of one call: etcd itself gives up on a proposal after about 7 s, a caller should hear sooner. */
  deadlineMs: 5_000,
  /** How long a lost answer is looked for while its transaction may still happen; see `outcome.ts`. */
  settleMs: 1_000,
  /** A watch that hears nothing for this long asks whether its member still answers. */
  watchProbeMs: 1_000,
  watchProbeTimeoutMs: 1_500,
  /** HTTP/2 pings on connections with calls: etcd drops clients that ping more often than every 5 s. */
  keepaliveMs: 6_000,
  keepaliveTimeoutMs: 3_000,
  /** Reconnecting: first and longest pause; each is then shortened at random by up to half. */
  backoffMinMs: 50,
  backoffMaxMs: 1_000,
  /** Pairs of a page. */
  pageItems: 500,
  /** A page asks for no more once it holds this many bytes; together with the next bound, what a page can cost. */
  pageBytes: 4 * 1024 * 1024,
  /** Pairs of the first request of a storage, before it knows how large values are. */
  firstRequestItems: 64,
  /** HTTP/2 window of a stream and of its connection, bytes: the default of 64 KiB stalls lists over slow networks. */
  flowControlBytes: 1024 * 1024,
})
