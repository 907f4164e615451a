/** The bounds of the embedded store. Every queue, buffer and history has one. */
export const embeddedDefaults = Object.freeze({
  /**
   * Revisions of history. At a steady 50 writes a second more than half an hour, in which a watch that was cut off
   * resumes and a list that is being paged stays exact.
   */
  historyRevisions: 100_000,
  /** Bytes of history on the disk, whichever bound comes first: large objects must not multiply without limit. */
  historyBytes: 512 * 1024 * 1024,
  /** Bytes of keys and values of the present. The same as the recommended limit of etcd's quota. */
  dataBytes: 8 * 1024 * 1024 * 1024,
  /**
   * Bytes of address space for the file, all of it mapped at once, because growing a mapping while others read from
   * it is the riskiest thing that LMDB could be asked to do. Costs neither memory nor disk.
   */
  mapBytes: 64 * 1024 * 1024 * 1024,
  /** Bytes of disk taken ahead of need, or a sixteenth of the file if that is more: see `FileSpace`. */
  spaceAheadBytes: 4 * 1024 * 1024,
  /** Bytes of those that are left to what makes the data smaller, so that a full disk can be cleared. */
  spaceReserveBytes: 1024 * 1024,
  /** Recent revisions that watches are fed from without touching the file. */
  tailRevisions: 10_000,
  /** Bytes of those: what a watch that lags by a few seconds under full load needs. */
  tailBytes: 32 * 1024 * 1024,
  /** Transactions that may wait for the commit under way; far above any number of concurrent requests. */
  queuedTransactions: 16_384,
  /** Bytes of values that may wait. */
  queuedBytes: 256 * 1024 * 1024,
  /** Transactions of one commit: enough to make the sync cheap, few enough that the event loop stays responsive. */
  batchTransactions: 512,
  /** Bytes of values of one commit. A transaction that is larger alone goes alone. */
  batchBytes: 16 * 1024 * 1024,
  /**
   * Bytes of a segment of the history. Large ones waste less of LMDB's pages; small ones make it cheap to read a
   * single past value.
   */
  segmentBytes: 64 * 1024,
  /** Segments of the history that one commit removes at most, so that a large compaction does not stop the writes. */
  sweepSegments: 500,
  /** How long a commit may take, in milliseconds, before its callers are told that the outcome is unknown. */
  commitTimeoutMs: 30_000,
  /** Pairs of a page of a list where the caller does not say. */
  listPairs: 500,
  /** Bytes of values of a page; one pair always fits. */
  listBytes: 8 * 1024 * 1024,
  /** Revisions of one watch batch. */
  watchRevisions: 1_000,
  /** Bytes of one watch batch; one revision always fits. */
  watchBytes: 4 * 1024 * 1024,
  /** Past revisions whose lists are kept ready for their next page; the least recently used is dropped. */
  pastRevisions: 4,
  /** Bytes of a key: what fits into a page of LMDB, rounded down, so that other stores can keep it too. */
  keyBytes: 1_024,
})

/** The bounds that an embedder or a test may set; see `embeddedDefaults`. */
export type EmbeddedBounds = { -readonly [name in keyof typeof embeddedDefaults]: number }
