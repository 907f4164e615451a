import { isRecord } from '@setpoint/controller-runtime/api'
import type { CelValue } from '../../model/index.ts'

/** Returns the value of CEL for a JSON value. As in Kubernetes, a number without a fraction is an int. */
export function celOf(value: unknown): CelValue {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (Array.isArray(value)) return value.map(celOf)
  if (!isRecord(value)) return null
  const map = new Map<CelValue, CelValue>()
  for (const [key, item] of Object.entries(value)) if (item !== undefined) map.set(key, celOf(item))
  return map
}

/** A map whose values are made when they are first read. A value that cannot be made is an error of every reader. */
export class LazyMap extends Map<CelValue, CelValue> {
  readonly #makers: ReadonlyMap<CelValue, () => CelValue>

  constructor(makers: Iterable<readonly [string, () => CelValue]>) {
    super()
    this.#makers = new Map(makers)
  }

  override get(key: CelValue): CelValue | undefined {
    const known = super.get(key)
    if (known !== undefined) return known
    const made = this.#makers.get(key)?.()
    if (made !== undefined) super.set(key, made)
    return made
  }

  override has(key: CelValue): boolean {
    return this.#makers.has(key)
  }
}
