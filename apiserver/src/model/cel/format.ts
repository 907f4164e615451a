import { Quantity } from '../quantity.ts'
import type { Budget } from './budget.ts'
import { CelEvaluationError } from './errors.ts'
import { Opaque } from './opaque.ts'
import { Url } from './url.ts'
import { type CelList, type CelValue, isList, isMap, Optional, TypeValue, weightOf } from './values.ts'

/** Formats values as CEL's `format` does: %s, %d, %f, %e, %b, %o, %x, %X and %%. @throws CelEvaluationError */
export function formatText(template: string, values: CelList, budget: Budget): string {
  let next = 0
  const text = template.replace(/%(?:\.(\d{1,2}))?([^.])|%/g, (whole, precision?: string, verb?: string) => {
    if (verb === '%') return '%'
    const value = values[next++]
    if (verb === undefined) throw new CelEvaluationError('the format ends within a verb')
    if (value === undefined) throw new CelEvaluationError('the format has more verbs than values')
    const formatted = formatValue(value, verb, precision === undefined ? 6 : Number(precision), whole, budget)
    budget.spend(formatted.length >> 6)
    return formatted
  })
  if (next < values.length) throw new CelEvaluationError('the format has fewer verbs than values')
  return text
}

function formatValue(
  value: CelValue,
  verb: string,
  precision: number,
  whole: string,
  budget: Budget,
): string {
  if (verb === 's') return textOf(value, budget)
  if (verb === 'd' && typeof value === 'bigint') return String(value)
  if (verb === 'd' && typeof value === 'number') return textOf(value, budget)
  if ((verb === 'f' || verb === 'e') && (typeof value === 'number' || typeof value === 'bigint')) {
    const number = Number(value)
    if (!Number.isFinite(number)) return textOf(number, budget)
    return verb === 'f' ? number.toFixed(precision) : exponential(number, precision)
  }
  const radix = radixes[verb]
  if (typeof value === 'bigint' && radix !== undefined) return cased(verb, value.toString(radix))
  if (typeof value === 'boolean' && verb === 'b') return value ? '1' : '0'
  if (typeof value === 'string' && radix === 16) return cased(verb, Buffer.from(value).toString('hex'))
  if (value instanceof Uint8Array && radix === 16) return cased(verb, Buffer.from(value).toString('hex'))
  throw new CelEvaluationError(`the format has no ${JSON.stringify(whole)} for such a value`)
}

const radixes: Readonly<Record<string, number>> = { b: 2, o: 8, x: 16, X: 16 }

function cased(verb: string, text: string): string {
  return verb === 'X' ? text.toUpperCase() : text
}

/** Go writes at least two digits of the exponent. */
function exponential(value: number, precision: number): string {
  return value.toExponential(precision).replace(/e([+-])(\d)$/, 'e$10$2')
}

function textOf(value: CelValue, budget: Budget): string {
  // Before the text is made: many items may be the same long string.
  budget.spend(1 + weightOf(value))
  const each = (part: CelValue) => textOf(part, budget)
  if (typeof value === 'number' && !Number.isFinite(value))
    return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity'
  if (value === null || typeof value !== 'object') return String(value)
  if (isList(value)) return `[${value.map(each).join(', ')}]`
  if (isMap(value)) {
    const entries = [...value].map(([key, item]) => `${each(key)}: ${each(item)}`)
    return `{${entries.sort().join(', ')}}`
  }
  if (value instanceof Uint8Array) return Buffer.from(value).toString()
  if (value instanceof TypeValue) return value.name
  const isWritten = !(value instanceof Optional || value instanceof Quantity || value instanceof Url)
  if (!isWritten || value instanceof Opaque)
    throw new CelEvaluationError('the format cannot write such a value')
  return value.toString()
}
