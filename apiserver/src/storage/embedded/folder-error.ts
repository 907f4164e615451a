/**
 * The data folder cannot be used: it cannot be created or written, has other content, is damaged, or was written by a
 * newer version. Retries do not help.
 */
export class StoreFolderError extends Error {
  override readonly name = 'StoreFolderError'
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
