/** A value of CEL that has methods and nothing else. */
export abstract class Opaque {
  abstract readonly typeName: string
  /** The same text for two values exactly if they are equal. */
  abstract get identity(): string
}
