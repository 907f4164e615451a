/** Bounds and times of the etcd storage. All times in milliseconds. */
export const etcdDefaults = Object.freeze({
  /**
   * Of a call, with everything that is asked of other members on its behalf. etcd itself gives up on a proposal, or on
   * a linearizable read, after about 7 s; a caller should hear sooner.
   */
  deadlineMs: 5_000,
  /** A read that is not answered for this long is asked of the next member too, which costs that one read. */
  hedgeMs: 1_000,
  /** The same of the write by which one finds out what became of others: they have waited long enough. */
  fenceHedgeMs: 500,
  /**
   * After which it is found out what became of a transaction that is not answered. Above what a busy disk takes, as the
   * finding costs a write; below a second or two, in which a cluster elects a new leader.
   */
  patienceMs: 1_500,
  /** Between two attempts while the members have no leader. */
  leaderlessMs: 50,
  /** A watch that hears nothing for this long asks whether its member still answers. */
  watchProbeMs: 500,
  /** After which a member that is asked on behalf of a watch, or of a replay, is given up for the next. */
  watchProbeTimeoutMs: 1_000,
  /** A connection that is not there after this long is given up. */
  connectMs: 5_000,
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
