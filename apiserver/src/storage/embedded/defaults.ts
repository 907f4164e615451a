/** Bounds of the embedded store. */
export const embeddedDefaults = Object.freeze({
  /** Revisions of history: more than half an hour at 50 writes a second, to resume watches and page lists. */
  historyRevisions: 100_000,
  /** Bytes of history on disk, for large objects. Whichever bound is reached first applies. */
  historyBytes: 512 * 1024 * 1024,
  /** Bytes of current keys and values: the largest quota that etcd recommends. */
  dataBytes: 8 * 1024 * 1024 * 1024,
  /**
   * Bytes of address space for the file, mapped at once, because growing a mapping under readers is risky in LMDB. Uses
   * neither memory nor disk space.
   */
  mapBytes: 64 * 1024 * 1024 * 1024,
  /** Bytes of disk space to allocate ahead, or a sixteenth of the file if that is more. See `FileSpace`. */
  spaceAheadBytes: 4 * 1024 * 1024,
  /** Bytes of disk space reserved for deletions, so that a full disk can be cleared. */
  spaceReserveBytes: 1024 * 1024,
  /** Recent revisions in memory, for watches. */
  tailRevisions: 10_000,
  /** Bytes of recent revisions in memory: a few seconds under full load. */
  tailBytes: 32 * 1024 * 1024,
  /** Transactions that may wait for a commit: far above any number of concurrent requests. */
  queuedTransactions: 16_384,
  /** Bytes of values that may wait for a commit. */
  queuedBytes: 256 * 1024 * 1024,
  /** Transactions of a commit: enough to amortize the sync, few enough to keep the event loop responsive. */
  batchTransactions: 512,
  /** Bytes of values of a commit. A larger transaction is committed alone. */
  batchBytes: 16 * 1024 * 1024,
  /** Bytes of a history segment. Large ones fill LMDB's pages better; small ones make single reads cheap. */
  segmentBytes: 64 * 1024,
  /** Segments that a commit removes at most, so that a large compaction does not block writes. */
  sweepSegments: 500,
  /** Milliseconds until a commit fails with `OutcomeUnknownError`. */
  commitTimeoutMs: 30_000,
  /** Default number of pairs of a page. */
  listPairs: 500,
  /** Bytes of values of a page. A page has at least one pair. */
  listBytes: 8 * 1024 * 1024,
  /** Revisions of a watch batch. */
  watchRevisions: 1_000,
  /** Bytes of a watch batch. A batch has at least one revision. */
  watchBytes: 4 * 1024 * 1024,
  /** Past states to keep for the next page of a list. The least recently used is evicted. */
  pastRevisions: 4,
  /** Bytes of a key: must fit into a page of LMDB. */
  keyBytes: 1_024,
})

/** Bounds that tests may set. See `embeddedDefaults`. */
export type EmbeddedBounds = { -readonly [name in keyof typeof embeddedDefaults]: number }
