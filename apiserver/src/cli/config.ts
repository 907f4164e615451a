import {
  constructFromEvents,
  EVENT_ID,
  FAILSAFE_SCHEMA,
  getScalarValue,
  parseEvents,
  YAMLException,
} from 'js-yaml'
import type { Flag } from './flags-table.ts'
import { type NamedText, quote, UsageError } from './flags-values.ts'

/** What a configuration file says about one flag. */
export interface ConfigEntry {
  readonly texts: readonly string[]
  /** For messages: `setpoint.yaml:3: data-dir`. */
  readonly origin: string
}

/**
 * Reads the text of a configuration file: one YAML mapping from flag names to values, where a flag that takes several may have a
 * list. Every value is taken as the text that stands there, so `etcd-password: 007` keeps its zeros.
 *
 * @throws UsageError naming file and line: for a text that is no such mapping, a key that is none of
 *   `accepted`, and a value that is neither a text nor, where that is possible, a list of texts.
 */
export function readConfigFile(
  { path, text }: NamedText,
  accepted: readonly Flag[],
): ReadonlyMap<Flag, ConfigEntry> {
  const { document, lines } = parse(path, text)
  const entries = new Map<Flag, ConfigEntry>()
  for (const [key, value] of Object.entries(document)) {
    const place = `${path}:${lines.get(key) ?? 1}`
    const flag = accepted.find(({ name }) => name === key)
    if (flag === undefined) {
      const names = accepted.map(({ name }) => name).join(', ')
      throw new UsageError(`${place}: unknown key ${quote(key)}; accepted: ${names}`)
    }
    const origin = `${place}: ${key}`
    entries.set(flag, { texts: textsOf(flag, value, origin), origin })
  }
  return entries
}

function textsOf(flag: Flag, value: unknown, origin: string): readonly string[] {
  if (typeof value === 'string') return flag.kind === 'list' ? splitList(value) : [value]
  if (flag.kind === 'value') throw new UsageError(`${origin}: one text is accepted, not ${describe(value)}`)
  if (!Array.isArray(value)) {
    throw new UsageError(`${origin}: a list of texts is accepted, not ${describe(value)}`)
  }
  return value.map((element: unknown) => {
    if (typeof element === 'string') return element
    throw new UsageError(`${origin}: a list of texts is accepted, one element is ${describe(element)}`)
  })
}

/** Splits at commas; spaces around an element do not count. An empty text has no elements. */
export function splitList(text: string): string[] {
  return text.trim() === '' ? [] : text.split(',').map(element => element.trim())
}

/** The document with every scalar as text, and the line (from 1) of each of its keys. */
function parse(path: string, text: string): { document: object; lines: ReadonlyMap<string, number> } {
  const lines = new Map<string, number>()
  try {
    // Read by events rather than `load`, because only they know where a key stands.
    const events = parseEvents(text, {})
    const documents = constructFromEvents(events, { source: text, schema: FAILSAFE_SCHEMA })
    if (documents.length > 1) throw new UsageError(`${path}: one YAML document is accepted, not several`)
    const document: unknown = documents[0]
    // A file without content, or with comments only, sets nothing.
    if (document === undefined || document === '') return { document: {}, lines }
    if (typeof document !== 'object' || document === null || Array.isArray(document)) {
      throw new UsageError(`${path}: a mapping from names to values is accepted, not ${describe(document)}`)
    }
    // Depth 1 is the document, depth 2 its mapping: the nodes that begin there are a key and its value by turns.
    let depth = 0
    let isKey = true
    for (const event of events) {
      if (event.type === EVENT_ID.POP) {
        depth--
        continue
      }
      if (depth === 2) {
        if (isKey && event.type === EVENT_ID.SCALAR) {
          lines.set(getScalarValue(text, event), text.slice(0, event.valueStart).split('\n').length)
        }
        isKey = !isKey
      }
      if (event.type !== EVENT_ID.SCALAR && event.type !== EVENT_ID.ALIAS) depth++
    }
    return { document, lines }
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const place = error.mark === undefined ? path : `${path}:${error.mark.line + 1}`
    throw new UsageError(`${place}: ${error.reason}`, { cause: error })
  }
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'a mapping' : `the text ${quote(String(value))}`
}
