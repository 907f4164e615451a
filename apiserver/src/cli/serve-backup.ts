import type { Readable } from 'node:stream'
import { ApiError } from '@setpoint/controller-runtime/api'
import { BackupError, backupStream, type PrecedingBackup } from '../operations/index.ts'
import { programVersion } from '../program-version.ts'
import type { Storage } from '../storage/index.ts'

/**
 * Begins a backup for a client of the server.
 * @throws ApiError 410 if the history does not reach back to the preceding backup; the errors of the store
 */
export async function serveBackup(
  storage: Storage,
  options: { readonly since: PrecedingBackup | undefined; readonly signal: AbortSignal },
): Promise<Readable> {
  try {
    return await backupStream(storage, { program: programVersion(), now: Date.now(), ...options })
  } catch (error) {
    throw error instanceof BackupError ? new ApiError('Expired', error.message) : error
  }
}
