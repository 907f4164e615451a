/**
 * The store for a single server, in a folder of its own: LMDB below, revisions and their history on top.
 *
 * - Transactions come together into one commit and one sync, each with its own revision; nobody is told about one, by
 *   an answer, a read or a watch, before it is on the disk.
 * - The history is bounded by revisions and bytes (`embeddedDefaults`). What falls out is compacted.
 * - Revisions begin at 1, have no gaps and outlive restarts. `head` answers the same for `current` and `written`.
 * - One process holds the folder; the hold ends with the process, however that ends.
 * - Only the owner can read the folder and its files, whatever the umask.
 * - A full disk or a reached bound refuses what would grow the data, and nothing else.
 */
export { type EmbeddedBounds, embeddedDefaults } from './defaults.ts'
export { type EmbeddedOptions, openEmbeddedStorage } from './embedded-storage.ts'
export { StoreFolderError } from './folder-error.ts'
