/** An expression does not compile. The message ends with the line and the column. */
export class CelCompileError extends Error {
  override readonly name = 'CelCompileError'
}

/** An expression has no value for these variables, for example because a key is missing. */
export class CelEvaluationError extends Error {
  override readonly name = 'CelEvaluationError'
}
