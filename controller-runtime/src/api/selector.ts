import { checkLabelKey, checkLabelValue } from './names.ts'

/**
 * The one grammar and the one evaluator of label and field selectors, shared by lists, watches and the SDK.
 *
 *     labels   k=v  k==v  k!=v  k  !k  k in (a,b)  k notin (a,b)
 *     fields   f=v  f==v  f!=v  f=(a,b)  f!=(a,b)  f in (a,b)  f notin (a,b)
 *
 * A comma joins terms by AND. In a field's value, a comma, bracket, `=`, `!` or backslash is written with a
 * backslash before it. White space around keys, operators and values is skipped (`\ ` keeps it).
 * Whatever does not parse is refused with the term and the reason; nothing is ever read as something else.
 */
export interface Requirement {
  readonly key: string
  readonly operator: 'in' | 'notin' | 'exists' | 'absent'
  /** The values of `in` and `notin`, without repetition; empty otherwise. */
  readonly values: readonly string[]
}

/** Terms joined by AND: a compiled `labelSelector` and `fieldSelector`. */
export interface Selector {
  readonly labels: readonly Requirement[]
  readonly fields: readonly Requirement[]
}

/** The selector without terms. */
export const selectsEverything: Selector = Object.freeze({
  labels: Object.freeze([]),
  fields: Object.freeze([]),
})

/** Bounds of selectors. */
export const selectorLimits = Object.freeze({
  /** Bytes of the label and field selectors of a request together (as UTF-8). */
  bytes: 16 * 1024,
  /** Terms of the label and field selectors of a request together. */
  terms: 100,
  /** Values of a list that are compared one by one; a longer list is made a set when it is first needed. */
  searched: 8,
})

/** A selector that does not parse. `term` is the offending part, shortened. */
export class SelectorError extends Error {
  override readonly name = 'SelectorError'
  readonly term: string

  constructor(term: string, why: string) {
    const shown = term.length > 80 ? `${term.slice(0, 80)}…` : term
    super(`${JSON.stringify(shown)}: ${why}`)
    this.term = shown
  }
}

/** @throws SelectorError */
export function parseLabelSelector(...texts: string[]): Requirement[] {
  return parse(texts, 'label')
}

/** @throws SelectorError. Whether a field is an indexed one is for the caller to check. */
export function parseFieldSelector(...texts: string[]): Requirement[] {
  return parse(texts, 'field')
}

/** Whether an object with these values satisfies every requirement; an object without the key has no values. */
export function matchesAll(
  requirements: readonly Requirement[],
  valuesOf: (key: string) => readonly string[],
): boolean {
  for (const requirement of requirements) {
    if (!matches(requirement, valuesOf(requirement.key))) return false
  }
  return true
}

/** Whether values satisfy one requirement. `notin` matches exactly what `in` leaves out. */
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
  }
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

/** Long lists of values as sets: a selector is tested against many objects. */
const wantedSets = new WeakMap<readonly string[], ReadonlySet<string>>()

/** Writes requirements back as text that parses to the same requirements. */
export function formatRequirements(requirements: readonly Requirement[]): string {
  return requirements
    .map(({ key, operator, values }) => {
      if (operator === 'exists') return key
      if (operator === 'absent') return `!${key}`
      const escaped = values.map(escapeSelectorValue)
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
    // In UTF-16 units, each of which is at least one byte.
    length += text.length
    if (length > selectorLimits.bytes) {
      throw new SelectorError(text, `${dialect} selector is longer than ${selectorLimits.bytes} bytes`)
    }
    if (text.trim() === '') continue
    for (const term of splitTerms(text)) {
      if (requirements.length === selectorLimits.terms) {
        throw new SelectorError(term, `${dialect} selector has more than ${selectorLimits.terms} terms`)
      }
      requirements.push(parseTerm(term, dialect))
    }
  }
  return requirements
}

/** Cuts at the commas that are neither escaped nor within brackets. */
function splitTerms(text: string): string[] {
  const terms: string[] = []
  let start = 0
  let open = -1
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '\\') at++
    else if (character === '(') {
      if (open >= 0) throw new SelectorError(text.slice(start), 'a bracket is opened inside a bracket')
      open = at
    } else if (character === ')') {
      if (open < 0)
        throw new SelectorError(text.slice(start, at + 1), 'a bracket is closed that was not opened')
      open = -1
    } else if (character === ',' && open < 0) {
      terms.push(text.slice(start, at))
      start = at + 1
    }
  }
  if (open >= 0) throw new SelectorError(text.slice(start), 'a bracket is not closed')
  terms.push(text.slice(start))
  return terms
}

const termPattern = /^\s*(!?)\s*([^\s=!(),\\]*)\s*(==|=|!=|(?<=\s)(?:in|notin)(?=\s*\()|)\s*([\s\S]*)$/

function parseTerm(term: string, dialect: Dialect): Requirement {
  const [, negation, key = '', operator, rest = ''] = termPattern.exec(term) ?? []
  if (term.trim() === '') throw new SelectorError(term, 'empty term (a comma too many?)')
  if (key === '') throw new SelectorError(term, 'the key is empty')
  if (dialect === 'label') {
    const problem = checkLabelKey(key)
    if (problem !== undefined) throw new SelectorError(term, problem)
  }
  if (negation === '!') {
    if (operator !== '' || rest !== '') throw new SelectorError(term, "nothing may follow the key in '!key'")
    return existence(term, key, 'absent', dialect)
  }
  if (operator === '') {
    if (rest !== '') throw new SelectorError(term, `expected an operator after ${JSON.stringify(key)}`)
    return existence(term, key, 'exists', dialect)
  }
  const wordOperator = operator === 'in' || operator === 'notin'
  const isList = wordOperator || (dialect === 'field' && rest.startsWith('('))
  const values = isList ? parseList(term, rest) : [parseValue(term, rest)]
  if (dialect === 'label') {
    for (const value of values) {
      const problem = checkLabelValue(value)
      if (problem !== undefined) throw new SelectorError(term, problem)
    }
  }
  return {
    key,
    operator: operator === '!=' || operator === 'notin' ? 'notin' : 'in',
    values: [...new Set(values)],
  }
}

function existence(term: string, key: string, operator: 'exists' | 'absent', dialect: Dialect): Requirement {
  if (dialect === 'field') throw new SelectorError(term, 'a field selector needs an operator and a value')
  return { key, operator, values: [] }
}

function parseList(term: string, text: string): string[] {
  const inner = /^\(([\s\S]*)\)\s*$/.exec(text)?.[1]
  if (inner === undefined)
    throw new SelectorError(term, 'expected one list in brackets, as in (a,b), and nothing after it')
  const elements: string[] = []
  let start = 0
  for (let at = 0; at <= inner.length; at++) {
    if (inner[at] === '\\') at++
    else if (at === inner.length || inner[at] === ',') {
      const element = parseValue(term, inner.slice(start, at))
      if (element === '') throw new SelectorError(term, 'the list has an empty element')
      elements.push(element)
      start = at + 1
    }
  }
  if (start <= inner.length && elements.length === 0) throw new SelectorError(term, 'the list is empty')
  return elements
}

/** Takes the backslashes out of a value, and refuses what should have had one. */
function parseValue(term: string, text: string): string {
  const trimmed = trimUnescaped(text)
  let value = ''
  for (let at = 0; at < trimmed.length; at++) {
    const character = trimmed[at] ?? ''
    if (character === '\\') {
      const escaped = trimmed[++at]
      if (escaped === undefined) throw new SelectorError(term, 'a backslash at the end escapes nothing')
      if (!/[,()=!\\\s]/.test(escaped)) {
        throw new SelectorError(term, `a backslash cannot stand before ${JSON.stringify(escaped)}`)
      }
      value += escaped
    } else if (/[,()=!]/.test(character)) {
      throw new SelectorError(
        term,
        `${JSON.stringify(character)} in a value is written with a backslash before it`,
      )
    } else value += character
  }
  return value
}

/** Trims white space, but not the one that a backslash keeps. */
function trimUnescaped(text: string): string {
  const trimmed = text.trimEnd()
  let backslashes = 0
  while (trimmed[trimmed.length - 1 - backslashes] === '\\') backslashes++
  return text.slice(0, trimmed.length + (backslashes % 2)).trimStart()
}
