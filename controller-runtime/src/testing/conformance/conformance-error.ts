/** A reconciler violates a guarantee. The message has the guarantee, the disturbance and the difference. */
export class ConformanceError extends Error {
  override readonly name = 'ConformanceError'
}

/** Returns the error of a failed case, with the preceding disturbance. */
export function failed(guarantee: string, disturbance: string | undefined, error: unknown): ConformanceError {
  const what = error instanceof Error ? error.message : String(error)
  const when = disturbance === undefined ? '' : `\n  when ${disturbance}:`
  return new ConformanceError(`the reconciler violates: ${guarantee}${when}\n  ${indent(what)}`, {
    cause: error,
  })
}

function indent(text: string): string {
  return text.replaceAll('\n', '\n  ')
}
