/**
 * The data folder cannot be used as it is: it cannot be created or written, holds something else, is damaged, or was
 * written by a newer version. The message names the folder and says what to do. Retrying does not help.
 */
export class StoreFolderError extends Error {
  override readonly name = 'StoreFolderError'
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
