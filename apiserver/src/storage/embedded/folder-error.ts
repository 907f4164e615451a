/**
 * The data folder cannot be used: it cannot be created or written, has other content, is damaged, or was written by a
 * newer version. Retries do not help.
 */
export class StoreFolderError extends Error {
  override readonly name = 'StoreFolderError'
}
