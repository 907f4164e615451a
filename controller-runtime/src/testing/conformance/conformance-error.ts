/** A reconciler has not kept a guarantee. The message says which, what was done to it, and what differed. */
export class ConformanceError extends Error {
  override readonly name = 'ConformanceError'
}

/** A failure of a case, with what was done to the reconciler before. */
export function failed(guarantee: string, disturbance: string | undefined, error: unknown): ConformanceError {
  const what = error instanceof Error ? error.message : String(error)
  const when = disturbance === undefined ? '' : `\n  when ${disturbance}:`
  return new ConformanceError(`the reconciler does not keep: ${guarantee}${when}\n  ${indent(what)}`, {
    cause: error,
  })
}

function indent(text: string): string {
  return text.replaceAll('\n', '\n  ')
}
