import { Opaque } from './opaque.ts'

/** Returns why a text is not of a format, or undefined. */
export type TextCheck = (text: string) => string | undefined

/** A format of texts, as `format.dns1123Label()` returns it. */
export class NamedFormat extends Opaque {
  override readonly typeName = 'kubernetes.NamedFormat'
  readonly name: string
  readonly check: TextCheck

  constructor(name: string, check: TextCheck) {
    super()
    this.name = name
    this.check = check
  }

  override get identity(): string {
    return this.name
  }
}
