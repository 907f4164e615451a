import { isRecord, nearestName } from '@setpoint/controller-runtime/api'
import { FAILSAFE_SCHEMA, loadAll, YAMLException } from 'js-yaml'
import type { Flag } from './flag.ts'
import type { NamedText } from './flags-files.ts'
import { quote, UsageError } from './flags-values.ts'

/** The value of one flag in a configuration file. */
interface ConfigEntry {
  readonly texts: readonly string[]
  /** For messages: `setpoint.yaml:3: data-dir`. */
  readonly origin: string
}

/** A configuration file. */
export interface ConfigFile {
  /** By the names of their flags. */
  readonly flags: ReadonlyMap<string, ConfigEntry>
  /** `plugins`: the settings of each plugin by name, with scalars as texts. */
  readonly plugins: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** `oidc`: the settings of each issuer, and their place for messages. undefined without the key. */
  readonly issuers: ConfigSections | undefined
}

/** Mappings in a list, with scalars as texts. */
interface ConfigSections {
  readonly sections: readonly Readonly<Record<string, unknown>>[]
  /** For messages: `setpoint.yaml:3: oidc`. */
  readonly origin: string
}

/** The key for the settings of plugins. */
const pluginsKey = 'plugins'

/** The key for several OpenID Connect issuers. */
const issuersKey = 'oidc'

/**
 * Reads a configuration file: one YAML mapping from flag names to values, or to lists for flags with several values,
 * from `plugins` to the settings of plugins, and from `oidc` to a list of issuers.
 * Scalars keep their text, so `etcd-password: 007` keeps its zeros.
 *
 * @param ofServe the flags that the file of a server may have
 * @throws UsageError with file and line if the file is not such a mapping, or has an unknown key or a value of the
 * wrong
 *   shape
 */
export function readConfigFile(
  file: NamedText,
  accepted: readonly Flag[],
  ofServe: readonly Flag[],
): ConfigFile {
  const entries = new Map<string, ConfigEntry>()
  const sections = accepted.some(({ name }) => name.startsWith(`${issuersKey}-`))
    ? [pluginsKey, issuersKey]
    : [pluginsKey]
  let plugins: ConfigFile['plugins'] = {}
  let issuers: ConfigFile['issuers']
  for (const [key, value] of Object.entries(parse(file))) {
    const place = `${file.path}:${lineOf(key, file.text)}`
    const flag = accepted.find(({ name }) => name === key)
    if (key === pluginsKey) {
      plugins = sectionsOf(value, `${place}: ${key}`)
      continue
    }
    if (key === issuersKey && sections.includes(key)) {
      issuers = listOf(value, `${place}: ${key}`)
      continue
    }
    if (flag === undefined) {
      const names = [...accepted.map(({ name }) => name), ...sections]
      const list = `accepted: ${names.join(', ')}`
      if (key === issuersKey || ofServe.some(({ name }) => name === key))
        throw new UsageError(`${place}: only setpoint serve has ${quote(key)}; ${list}`)
      const nearest = nearestName(key, names)
      const advice = nearest === undefined ? list : `did you mean ${nearest}?`
      throw new UsageError(`${place}: unknown key ${quote(key)}; ${advice}`)
    }
    const origin = `${place}: ${key}`
    entries.set(flag.name, { texts: textsOf(flag, value, origin), origin })
  }
  return { flags: entries, plugins, issuers }
}

function listOf(value: unknown, origin: string): ConfigSections {
  if (!Array.isArray(value) || !value.every(isRecord))
    throw new UsageError(`${origin}: a list of mappings is accepted, one for each issuer`)
  return { sections: value, origin }
}

/** Returns the sections of `plugins`. The plugins check what is in them. */
function sectionsOf(value: unknown, origin: string): ConfigFile['plugins'] {
  if (value === '') return {}
  if (!isRecord(value))
    throw new UsageError(
      `${origin}: a mapping from plugins to their settings is accepted, not ${describe(value)}`,
    )
  const sections = Object.entries(value).map(([name, section]) => {
    if (section === '') return [name, {}] as const
    if (!isRecord(section))
      throw new UsageError(`${origin}.${name}: a mapping of settings is accepted, not ${describe(section)}`)
    return [name, section] as const
  })
  return Object.fromEntries(sections)
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

/** Splits at commas and trims each element. An empty text has no elements. */
export function splitList(text: string): string[] {
  return text.trim() === '' ? [] : text.split(',').map(element => element.trim())
}

/** Parses the document with every scalar as text. */
function parse({ path, text }: NamedText): Readonly<Record<string, unknown>> {
  try {
    const documents = loadAll(text, { schema: FAILSAFE_SCHEMA })
    if (documents.length > 1) throw new UsageError(`${path}: one YAML document is accepted, not several`)
    const document: unknown = documents[0]
    // An empty file sets nothing.
    if (document === undefined || document === '') return {}
    if (!isRecord(document))
      throw new UsageError(`${path}: a mapping from names to values is accepted, not ${describe(document)}`)
    return document
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const place = error.mark === undefined ? path : `${path}:${error.mark.line + 1}`
    throw new UsageError(`${place}: ${error.reason}`, { cause: error })
  }
}

/** Returns the line of a key, from 1. In the usual block style the keys of the document begin a line. */
function lineOf(key: string, text: string): number {
  const begins = [`${key}:`, `'${key}':`, `"${key}":`]
  return Math.max(1, 1 + text.split('\n').findIndex(line => begins.some(begin => line.startsWith(begin))))
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'a mapping' : `the text ${quote(String(value))}`
}
