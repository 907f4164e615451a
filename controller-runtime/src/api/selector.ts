import { compareCodePoints } from './code-point-order.ts'
import { cut, echoedCharacters, quote } from './echo.ts'
import { checkLabelKey, checkLabelValue } from './names.ts'

/**
 * Parsing and evaluation of label and field selectors, shared by lists, watches and the SDK.
 *
 *     labels   k=v  k==v  k!=v  k  !k  k in (a,b)  k notin (a,b)  k<n  k>n
 *     fields   f=v  f==v  f!=v  f=(a,b)  f!=(a,b)  f in (a,b)  f notin (a,b)  f<v  f<=v  f>v  f>=v
 *
 * A comma joins terms by AND. In a field's value, a comma, bracket, `=`, `!` or backslash needs a backslash before it;
 * `<` and `>` may have one. A key ends at the first `<` or `>`. Labels compare as integers of 64 bits, as in
 * Kubernetes, and fields by code point. White space around keys, operators and values is ignored (`\ ` keeps it). As in
 * Kubernetes, an element of a label's list may be empty, and an empty term of a field selector is ignored. An invalid
 * selector is rejected with the term and the reason.
 */
export interface Requirement {
  readonly key: string
  /** `gt` and `lt` compare labels, the operators of `ComparisonOperator` fields. */
  readonly operator: 'in' | 'notin' | 'exists' | 'absent' | 'gt' | 'lt' | ComparisonOperator
  /** The distinct values of `in` and `notin`, the bound of a comparison; otherwise empty. */
  readonly values: readonly string[]
}

/** Compares a value with a bound by code point. */
export type ComparisonOperator = '<' | '<=' | '>' | '>='

/** Terms joined by AND: a compiled `labelSelector` and `fieldSelector`. */
export interface Selector {
  readonly labels: readonly Requirement[]
  readonly fields: readonly Requirement[]
}

/** The empty selector, which matches everything. */
export const selectsEverything: Selector = Object.freeze({
  labels: Object.freeze([]),
  fields: Object.freeze([]),
})

/** Limits of selectors. */
export const selectorLimits = Object.freeze({
  /** Bytes of the label and field selectors of a request together (as UTF-8). */
  bytes: 16 * 1024,
  /** Terms of the label and field selectors of a request together. */
  terms: 100,
  /** Longest list of values that is searched linearly; a longer one becomes a Set at its first use. */
  searched: 8,
})

/** An invalid selector. `term` is the offending part, shortened. */
export class SelectorError extends Error {
  override readonly name = 'SelectorError'
  readonly term: string

  constructor(term: string, why: string) {
    const shown = cut(term, echoedCharacters)
    super(`${JSON.stringify(shown)}: ${why}`)
    this.term = shown
  }
}

/** @throws SelectorError */
export function parseLabelSelector(...texts: string[]): Requirement[] {
  return parse(texts, 'label')
}

/** @throws SelectorError. Does not check whether a field is indexed. */
export function parseFieldSelector(...texts: string[]): Requirement[] {
  return parse(texts, 'field')
}

/** Returns true if an object with these values satisfies every requirement; for a missing key the values are empty. */
export function matchesAll(
  requirements: readonly Requirement[],
  valuesOf: (key: string) => readonly string[],
): boolean {
  for (const requirement of requirements) {
    if (!matches(requirement, valuesOf(requirement.key))) return false
  }
  return true
}

/**
 * Returns true if the values satisfy one requirement. `notin` is the exact negation of `in`. A comparison needs any of
 * the values to satisfy it, so it is false without values; `gt` and `lt` are false for a value that is no integer.
 */
export function matches(requirement: Requirement, values: readonly string[]): boolean {
  switch (requirement.operator) {
    case 'exists':
      return values.length > 0
    case 'absent':
      return values.length === 0
    case 'in':
      return includesAny(requirement.values, values)
    case 'notin':
      return !includesAny(requirement.values, values)
    case 'gt':
    case 'lt': {
      const bound = integerOf(requirement.values[0])
      const value = integerOf(values[0])
      if (bound === undefined || value === undefined) return false
      return requirement.operator === 'gt' ? value > bound : value < bound
    }
    default: {
      const [bound = ''] = requirement.values
      for (const value of values) if (compares(value, requirement.operator, bound)) return true
      return false
    }
  }
}

const largestInteger = 2n ** 63n - 1n

/** Returns the integer of a label's value, which has no sign. As in Kubernetes (`ParseInt` with 64 bits). */
function integerOf(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^\d{1,63}$/.test(text)) return undefined
  const integer = BigInt(text)
  return integer <= largestInteger ? integer : undefined
}

function compares(value: string, operator: ComparisonOperator, bound: string): boolean {
  const order = compareCodePoints(bound, value)
  switch (operator) {
    case '<':
      return order > 0
    case '<=':
      return order >= 0
    case '>':
      return order < 0
    case '>=':
      return order <= 0
  }
}

/** Returns true if the operator compares a field with a bound. */
export function isComparison(operator: string): operator is ComparisonOperator {
  return /^[<>]=?$/.test(operator)
}

function includesAny(wanted: readonly string[], values: readonly string[]): boolean {
  if (wanted.length <= selectorLimits.searched) {
    for (const value of values) if (wanted.includes(value)) return true
    return false
  }
  let set = wantedSets.get(wanted)
  if (set === undefined) {
    set = new Set(wanted)
    wantedSets.set(wanted, set)
  }
  for (const value of values) if (set.has(value)) return true
  return false
}

/** Long lists of values as Sets, since a selector is evaluated for many objects. */
const wantedSets = new WeakMap<readonly string[], ReadonlySet<string>>()

/** Formats requirements as a selector that parses to the same requirements. */
export function formatRequirements(requirements: readonly Requirement[]): string {
  return requirements
    .map(({ key, operator, values }) => {
      if (operator === 'exists') return key
      if (operator === 'absent') return `!${key}`
      const escaped = values.map(escapeSelectorValue)
      if (operator === 'gt' || operator === 'lt') return `${key}${operator === 'gt' ? '>' : '<'}${escaped[0]}`
      if (isComparison(operator)) return `${key}${operator}${escaped[0]}`
      if (escaped.length === 1) return `${key}${operator === 'in' ? '=' : '!='}${escaped[0]}`
      return `${key} ${operator} (${escaped.join(',')})`
    })
    .join(',')
}

/** Escapes a value for use in a field selector. */
export function escapeSelectorValue(value: string): string {
  return value.replace(/[,()=!\\]/g, '\\$&').replace(/^\s|\s$/g, space => `\\${space}`)
}

type Dialect = 'label' | 'field'

function parse(texts: string[], dialect: Dialect): Requirement[] {
  const requirements: Requirement[] = []
  let length = 0
  for (const text of texts) {
    // Compares UTF-16 units: each takes at least one byte.
    length += text.length
    if (length > selectorLimits.bytes) {
      throw new SelectorError(text, `${dialect} selector is longer than ${selectorLimits.bytes} bytes`)
    }
    // Kubernetes reads other white space as part of a key or value, which makes it invalid.
    if (dialect === 'label' && /[^\S \t\r\n]/.test(text))
      throw new SelectorError(text, 'white space must be spaces, tabs or line breaks')
    if (text.trim() === '') continue
    for (const term of splitTerms(text)) {
      // As in `ParseSelector` of Kubernetes' `fields/selector.go`. Some clients end their selectors with a comma.
      if (dialect === 'field' && term.trim() === '') continue
      if (requirements.length === selectorLimits.terms) {
        throw new SelectorError(term, `${dialect} selector has more than ${selectorLimits.terms} terms`)
      }
      requirements.push(parseTerm(term, dialect))
    }
  }
  return requirements
}

/** Splits at commas that are neither escaped nor in brackets. */
function splitTerms(text: string): string[] {
  const terms: string[] = []
  let start = 0
  let open = -1
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '\\') at++
    else if (character === '(') {
      if (open >= 0) throw new SelectorError(text.slice(start), 'brackets cannot be nested')
      open = at
    } else if (character === ')') {
      if (open < 0) throw new SelectorError(text.slice(start, at + 1), 'unexpected closing bracket')
      open = -1
    } else if (character === ',' && open < 0) {
      terms.push(text.slice(start, at))
      start = at + 1
    }
  }
  if (open >= 0) throw new SelectorError(text.slice(start), 'missing closing bracket')
  terms.push(text.slice(start))
  return terms
}

const termPattern =
  /^\s*(!?)\s*([^\s=!(),\\<>]*)\s*(==|=|!=|<=|<|>=|>|(?<=\s)(?:in|notin)(?=\s*\()|)\s*([\s\S]*)$/

function parseTerm(term: string, dialect: Dialect): Requirement {
  const [, negation, slice = '', operator = '', rest = ''] = termPattern.exec(term) ?? []
  if (term.trim() === '') throw new SelectorError(term, 'empty term, is there an extra comma?')
  if (slice === '') throw new SelectorError(term, 'the key is empty')
  const key = propertyKey(slice)
  if (dialect === 'label') {
    const problem = checkLabelKey(key)
    if (problem !== undefined) throw new SelectorError(term, problem)
  }
  if (negation === '!') {
    if (operator !== '' || rest !== '')
      throw new SelectorError(term, "unexpected text after the key in '!key'")
    return existence(term, key, 'absent', dialect)
  }
  if (operator === '') {
    if (rest === '') return existence(term, key, 'exists', dialect)
    const word = /^(?:in|notin)(?=\s|$)/.exec(rest)?.[0]
    if (word !== undefined) throw new SelectorError(term, `${word} needs a list in brackets, such as (a,b)`)
    throw new SelectorError(term, `expected an operator after ${quote(key)}`)
  }
  if (isComparison(operator)) {
    const value = parseValue(term, rest, dialect)
    if (dialect === 'field') return { key, operator, values: [value] }
    if (operator.length > 1) throw new SelectorError(term, 'labels compare with < and > only')
    if (integerOf(value) === undefined) throw new SelectorError(term, 'labels compare with an integer only')
    return { key, operator: operator === '<' ? 'lt' : 'gt', values: [value] }
  }
  const wordOperator = operator === 'in' || operator === 'notin'
  const isList = wordOperator || (dialect === 'field' && rest.startsWith('('))
  const values = isList ? parseList(term, rest, dialect) : [parseValue(term, rest, dialect)]
  if (dialect === 'label') {
    for (const value of values) {
      const problem = checkLabelValue(value)
      if (problem !== undefined) throw new SelectorError(term, problem)
    }
  }
  return {
    key,
    operator: operator === '!=' || operator === 'notin' ? 'notin' : 'in',
    values: values.length === 1 ? values : [...new Set(values)],
  }
}

/**
 * Returns the engine's own copy of a property key. Looking up a label by a slice of a URL takes several times as long.
 */
function propertyKey(text: string): string {
  return Object.keys({ [text]: true })[0] ?? text
}

function existence(term: string, key: string, operator: 'exists' | 'absent', dialect: Dialect): Requirement {
  if (dialect === 'field') throw new SelectorError(term, 'a field selector needs an operator and a value')
  return { key, operator, values: [] }
}

function parseList(term: string, text: string, dialect: Dialect): string[] {
  const inner = /^\(([\s\S]*)\)\s*$/.exec(text)?.[1]
  if (inner === undefined)
    throw new SelectorError(term, 'expected exactly one list in brackets, such as (a,b)')
  const elements: string[] = []
  let start = 0
  for (let at = 0; at < inner.length; at++) {
    if (inner[at] === '\\') at++
    else if (inner[at] === ',') {
      elements.push(inner.slice(start, at))
      start = at + 1
    }
  }
  elements.push(inner.slice(start))
  return elements.map(element => {
    const value = parseValue(term, element, dialect)
    if (value === '' && dialect === 'field') throw new SelectorError(term, 'the list has an empty element')
    return value
  })
}

/** Unescapes a value. @throws SelectorError for an invalid escape or an unescaped special character. */
function parseValue(term: string, text: string, dialect: Dialect): string {
  const trimmed = trimUnescaped(text)
  if (!/[,()=!\\]/.test(trimmed)) return trimmed
  let value = ''
  for (let at = 0; at < trimmed.length; at++) {
    const character = trimmed[at] ?? ''
    if (character === '\\') {
      const escaped = trimmed[++at]
      if (escaped === undefined) throw new SelectorError(term, 'unexpected backslash at the end')
      if (!/[,()=!\\<>\s]/.test(escaped)) {
        throw new SelectorError(term, `${JSON.stringify(escaped)} cannot be escaped`)
      }
      value += escaped
    } else if (/[,()=!]/.test(character)) {
      throw new SelectorError(term, problemOfCharacter(character, at, dialect))
    } else value += character
  }
  return value
}

/** Label values have no such characters, so nobody should escape them. */
function problemOfCharacter(character: string, at: number, dialect: Dialect): string {
  const shown = JSON.stringify(character)
  if (dialect === 'field') return `${shown} in a value must be escaped with a backslash`
  return character === '(' && at === 0
    ? 'a list of label values needs in or notin, such as key in (a,b)'
    : `a label value cannot have ${shown}`
}

/** Trims white space, except an escaped trailing space. */
function trimUnescaped(text: string): string {
  const trimmed = text.trimEnd()
  let backslashes = 0
  while (trimmed[trimmed.length - 1 - backslashes] === '\\') backslashes++
  return text.slice(0, trimmed.length + (backslashes % 2)).trimStart()
}
