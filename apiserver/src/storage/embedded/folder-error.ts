/**
 * The data folder cannot be used as it is: it cannot be created or written, holds something else, is damaged, or was
 * written by a newer version. The message names the folder and says what to do. Retrying does not help.
 */
export class StoreFolderError extends Error {
  override readonly name = 'StoreFolderError'
}

/** The `code` of a system error, such as `EACCES`. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
