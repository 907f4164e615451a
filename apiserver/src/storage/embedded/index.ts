/**
 * The store of a single server: revisions and their history in an LMDB database.
 *
 * - Concurrent transactions share a commit and its sync; each has its own revision. A transaction becomes visible to
 *   its caller, to reads and to watches only when it is durable.
 * - Revisions and bytes of the history are bounded (`embeddedDefaults`). Older history is compacted.
 * - Revisions start at 1, have no gaps and survive restarts.
 * - A restore builds the new store beside the old one, and replaces it in one step.
 * - One process at a time uses the folder. The lock ends with the process, even after a crash.
 * - Only the owner can read the folder and its files, whatever the umask.
 * - When the disk or the store is full, only writes that grow the data fail.
 */
export { type EmbeddedBounds, embeddedDefaults } from './defaults.ts'
export { type EmbeddedOptions, openEmbeddedStorage } from './embedded-storage.ts'
export { StoreFolderError } from './folder-error.ts'
export { LockHeldError, lockFile, type ProcessLock } from './process-lock.ts'
export { replaceEmbeddedStore } from './replace-store.ts'
export { checkReplaced, holdsStore } from './replacement-folder.ts'
