import { isRecord } from './is-record.ts'

/** Returns the first value at a path, or undefined. */
export type JsonPath = (root: unknown) => unknown

/** A step from a value to the values below it, in order. */
type Step =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'index'; readonly at: number }
  | { readonly kind: 'all' }
  | { readonly kind: 'filter'; readonly test: (item: unknown) => boolean }

/**
 * Compiles a path of a printer column: the part of kubectl's JSONPath that leads to one value.
 *
 * - `.spec.email`, `.spec['email']`: a field; a dot in its name is written as `\.`
 * - `.items[0]`, `.items[-1]`, `.items[*]`, `.spec.*`: one item, or every item or field
 * - `.status.conditions[?(@.type=="Ready")].status`: the items that match. `==`, `!=`, `<`, `<=`, `>` and `>=` compare
 *   with a text, a number, a boolean, or another path of the item. Without an operator the path must lead to a value.
 *
 * Recursive descent (`..`), slices (`[0:2]`) and unions (`[0,1]`) are rejected.
 * @throws SyntaxError that says what is wrong
 */
export function compileJsonPath(text: string): JsonPath {
  const steps = stepsOf(text)
  return root => firstValue(root, steps, 0)
}

/** Compiles a path as `compileJsonPath` does, and returns all its values, in order. @throws SyntaxError */
export function compileJsonPaths(text: string): (root: unknown) => unknown[] {
  const steps = stepsOf(text)
  return root => {
    let values = [root]
    for (const step of steps) values = values.flatMap(value => valuesBelow(value, step))
    return values
  }
}

/**
 * Returns the names of the fields at the beginning of a path, up to its first other step.
 * @throws SyntaxError as `compileJsonPath`
 */
export function leadingFields(text: string): string[] {
  const names: string[] = []
  for (const step of stepsOf(text)) {
    if (step.kind !== 'field') break
    names.push(step.name)
  }
  return names
}

function stepsOf(text: string): Step[] {
  if (!text.startsWith('.')) throw new SyntaxError('it must start with a dot')
  const reader = new Reader(text)
  const steps = readSteps(reader)
  if (!reader.atEnd) throw new SyntaxError(`unexpected ${JSON.stringify(reader.rest)}`)
  if (steps.length === 0) throw new SyntaxError('it must name a field')
  return steps
}

/** The text of a path, and the place up to which it has been read. */
class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get atEnd(): boolean {
    return this.#at === this.#text.length
  }

  get rest(): string {
    return this.#text.slice(this.#at)
  }

  /** Reads what the sticky expression matches here. Returns its groups, the whole match first, or undefined. */
  take(expression: RegExp): readonly string[] | undefined {
    expression.lastIndex = this.#at
    const found = expression.exec(this.#text)
    if (found === null) return undefined
    this.#at = expression.lastIndex
    return found
  }
}

const recursion = /\.\./y
const name = /\.((?:\\.|[^\s.,[\]${}@\\()=!<>'"])+)/y
const itemIndex = /\[\s*(-?\d+)\s*\]/y
const everything = /\.\*|\[\s*\*\s*\]/y
const quotedName = /\['((?:\\.|[^'\\])+)'\]/y
const filterStart = /\[\?\(\s*/y
const filterEnd = /\s*\)\]/y
const operator = /\s*(==|!=|<=|>=|<|>)\s*/y
const self = /@/y
const quotedText = /'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"/y
const number = /[-+]?\d+(?:\.\d+)?/y
const boolean = /true|false/y

function readSteps(reader: Reader): Step[] {
  const steps: Step[] = []
  for (;;) {
    if (reader.take(recursion)) throw new SyntaxError('recursive descent (..) is not supported')
    const step = readStep(reader)
    if (step === undefined) return steps
    steps.push(step)
  }
}

function readStep(reader: Reader): Step | undefined {
  if (reader.take(everything)) return { kind: 'all' }
  const [, at] = reader.take(itemIndex) ?? []
  if (at !== undefined) return { kind: 'index', at: Number(at) }
  const [, plain] = reader.take(name) ?? []
  if (plain !== undefined) return { kind: 'field', name: withoutEscapes(plain) }
  const [, quoted] = reader.take(quotedName) ?? []
  if (quoted !== undefined) {
    if (/(?<!\\)\./.test(quoted))
      throw new SyntaxError(`a dot in ['${quoted}'] must be written as \\. as kubectl requires`)
    return { kind: 'field', name: withoutEscapes(quoted) }
  }
  if (reader.take(filterStart)) return { kind: 'filter', test: readFilter(reader) }
  if (/^\[[^\]]*:/.test(reader.rest)) throw new SyntaxError('slices are not supported')
  if (/^\[[^\]]*,/.test(reader.rest)) throw new SyntaxError('unions are not supported')
  return undefined
}

function readFilter(reader: Reader): (item: unknown) => boolean {
  const left = readOperand(reader)
  const [, compared] = reader.take(operator) ?? []
  const right = compared === undefined ? undefined : readOperand(reader)
  if (!reader.take(filterEnd))
    throw new SyntaxError(`a filter must end with )], not ${JSON.stringify(reader.rest)}`)
  if (right === undefined) return item => left(item) !== undefined
  return item => compare(left(item), right(item), compared)
}

function readOperand(reader: Reader): JsonPath {
  if (reader.take(self)) {
    const steps = readSteps(reader)
    return root => firstValue(root, steps, 0)
  }
  const value = readLiteral(reader)
  return () => value
}

function readLiteral(reader: Reader): string | number | boolean {
  const [, single, double] = reader.take(quotedText) ?? []
  const text = single ?? double
  if (text !== undefined) return withoutEscapes(text)
  const [digits] = reader.take(number) ?? []
  if (digits !== undefined) return Number(digits)
  const [word] = reader.take(boolean) ?? []
  if (word !== undefined) return word === 'true'
  throw new SyntaxError(
    `a filter compares @ with a text in quotes, a number or a boolean, not ${JSON.stringify(reader.rest)}`,
  )
}

function withoutEscapes(text: string): string {
  return text.replace(/\\(.)/gs, '$1')
}

/** Values of different types match no comparison. */
function compare(left: unknown, right: unknown, by: string | undefined): boolean {
  const isComparable =
    typeof left === typeof right &&
    (typeof left === 'string' || typeof left === 'number' || typeof left === 'boolean')
  if (!isComparable) return false
  if (by === '==') return left === right
  if (by === '!=') return left !== right
  if (typeof left === 'string' && typeof right === 'string') return isInOrder(left, right, by)
  if (typeof left === 'number' && typeof right === 'number') return isInOrder(left, right, by)
  return false
}

function isInOrder<T extends string | number>(left: T, right: T, by: string | undefined): boolean {
  if (by === '<') return left < right
  if (by === '<=') return left <= right
  if (by === '>') return left > right
  return left >= right
}

/** Follows the steps from `at` on, depth first. Null has nothing below it. */
function firstValue(value: unknown, steps: readonly Step[], at: number): unknown {
  const step = steps[at]
  if (step === undefined) return value
  for (const below of valuesBelow(value, step)) {
    const found = firstValue(below, steps, at + 1)
    if (found !== undefined) return found
  }
  return undefined
}

const nothing: readonly unknown[] = Object.freeze([])

function valuesBelow(value: unknown, step: Step): readonly unknown[] {
  if (step.kind === 'field')
    return isRecord(value) && Object.hasOwn(value, step.name) ? [value[step.name]] : nothing
  if (step.kind === 'all')
    return Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : nothing
  if (!Array.isArray(value)) return nothing
  if (step.kind === 'filter') return value.filter(step.test)
  const index = step.at < 0 ? step.at + value.length : step.at
  return index >= 0 && index < value.length ? [value[index]] : nothing
}
