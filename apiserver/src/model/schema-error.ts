/** A schema breaks the dialect; the message names the place in it. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}
