/** Bounds and times of the etcd storage. All times in milliseconds. */
export const etcdDefaults = Object.freeze({
  /** Deadline of a call with all its steps. etcd itself gives up on a proposal or a linearizable read after 7 s. */
  deadlineMs: 5_000,
  /** A read without a response for this long is also sent to the next member, which costs one read. */
  hedgeMs: 1_000,
  /** The same for the put of the fence. The transactions that wait for it have waited long enough. */
  fenceHedgeMs: 500,
  /**
   * How long a transaction waits for its response before its outcome is looked up. Above the latency of a busy disk,
   * because the look-up costs a write; below the one or two seconds of an election.
   */
  patienceMs: 1_500,
  /**
   * Deadline of a login. Its bcrypt takes seconds on a busy machine, and another member would not be faster. The
   * keepalive notices a stalled member sooner.
   */
  loginMs: 15_000,
  /** How long the other members have to say which cluster they belong to, before the first call. */
  meetMs: 1_000,
  /** How long members of several clusters are not asked again. */
  meetPauseMs: 1_000,
  /** How long a login that etcd rejected is not tried again. */
  loginPauseMs: 1_000,
  /**
   * How often a transaction is sent again after a look-up found that it did not happen, or another fence refused it.
   */
  resends: 3,
  /** First and longest pause before a transaction or read is sent again; jittered like the pauses below. */
  resendMinMs: 25,
  resendMaxMs: 200,
  /** A watch that receives nothing for this long checks that its member responds. */
  watchProbeMs: 500,
  /** How long a member may take to respond to a watch or a replay before the next member is used. */
  watchProbeTimeoutMs: 1_000,
  /** HTTP/2 pings on connections with calls. etcd closes connections that ping more often than every 5 s. */
  keepaliveMs: 6_000,
  keepaliveTimeoutMs: 3_000,
  /** First and longest pause before reconnecting; each is shortened at random by up to half. */
  backoffMinMs: 50,
  backoffMaxMs: 1_000,
  /** How long the members have to tell how much space they take. */
  spaceTimeoutMs: 5_000,
  /** Pairs of a page. */
  pageItems: 500,
  /** A page asks for no more pairs once it holds this many bytes. */
  pageBytes: 4 * 1024 * 1024,
  /** Pairs of the first request of a storage, before it knows how large values are. */
  firstRequestItems: 64,
  /** Largest response. A page over it is requested again in halves; a single pair is always below. */
  receiveBytes: 32 * 1024 * 1024,
  /** Largest request: above etcd's default limit of 1.5 MiB, which operators can raise. */
  sendBytes: 8 * 1024 * 1024,
  /** HTTP/2 window of a stream and of its connection, bytes: the default of 64 KiB stalls lists over slow networks. */
  flowControlBytes: 1024 * 1024,
})
