/**
/**
 * What an operator does with a store, or with running servers, as a whole. It knows keys and the stored form of
 * objects, but not the models of plugins.
 *
 * - A backup is the state of a store at one revision, as a compressed file with a checksum, see `backup-format.ts`. It
 *   is made at the pace of its reader, in bounded memory, while the store is in use.
 * - A restore reads and checks the whole file before it changes anything. Values come back byte for byte; every version
 *   is new, in the order of the old ones, and above all that were ever given out.
 * - `checkStore` finds what is damaged or left over. What it reports was so at one revision, also while servers write.
 * - `purgeGroup` removes what an uninstalled plugin has left. It removes nothing that a server has stored since it
 *   began.
 * - `statusOf` asks running servers how they stand, by routes that every client can use.
 */
export { BackupError, type BackupFooter, type BackupHeader, type PrecedingBackup } from './backup-format.ts'
export { type BackupSummary, readBackup } from './backup-reader.ts'
export { BackupSeal, sealDefaults, unsealed } from './backup-seal.ts'
export { backupStream } from './backup-stream.ts'
export * from './check.ts'
export * from './check-report.ts'
export * from './purge.ts'
export * from './purge-definitions.ts'
export * from './purge-plugins.ts'
export * from './purge-survey.ts'
export { type BackupSource, baseAfter, type CheckedBackups, checkBackups, restoreInto } from './restore.ts'
export * from './status.ts'
export * from './status-report.ts'
