/** Returns the message of an error, or another thrown value as text. Never throws. */
export function errorMessage(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    return 'a value that has no text'
  }
}
