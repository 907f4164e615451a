import { isRecord } from '../api/is-record.ts'
import type { FromSchema, Schema } from '../api/schema.ts'

/** The schema of a setting. */
export interface SettingSchema extends Schema {
  /** The value is never logged, shown or put into a message by the server. */
  readonly secret?: boolean
  readonly items?: SettingSchema
  readonly properties?: { readonly [name: string]: SettingSchema }
  readonly additionalProperties?: boolean | SettingSchema
}

/** The schema of a plugin's settings. Each setting has a camelCase name and a type. */
export interface SettingsSchema {
  readonly type: 'object'
  readonly description?: string
  readonly properties: { readonly [name: string]: SettingSchema }
  readonly required?: readonly string[]
}

/** The settings that a schema describes, deeply readonly. A setting with a default always has a value. */
export type SettingsOf<S> = S extends { readonly properties: infer P }
  ? { readonly [K in keyof P as K extends Present<S, P> ? K : never]: DeepReadonly<FromSchema<P[K]>> } & {
      readonly [K in keyof P as K extends Present<S, P> ? never : K]?: DeepReadonly<FromSchema<P[K]>>
    }
  : Readonly<Record<string, unknown>>

type Present<S, P> =
  | (S extends { readonly required: readonly (infer R)[] } ? R : never)
  | { [K in keyof P]: P[K] extends { readonly default: unknown } ? K : never }[keyof P]

type DeepReadonly<T> = T extends (infer I)[]
  ? readonly DeepReadonly<I>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T

const settingsFields: ReadonlySet<string> = new Set(['type', 'description', 'properties', 'required'])

/** Suffix of the name that gives the file of a setting instead of its value. */
export const fileSuffix = 'File'

/** Returns the part of an environment variable that names a setting: `apiUrl` is `API_URL`. */
export function environmentKey(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .toUpperCase()
}

/** @throws TypeError that names the wrong part of a plugin's `settings` */
export function checkSettingsSchema(plugin: string, schema: unknown): asserts schema is SettingsSchema {
  const problem = problemOf(schema)
  if (problem !== undefined) throw new TypeError(`plugin ${plugin}: settings${problem}`)
}

function problemOf(schema: unknown): string | undefined {
  if (!isRecord(schema) || schema.type !== 'object' || !isRecord(schema.properties))
    return " must be a schema with type: 'object' and properties"
  const unknown = Object.keys(schema).find(field => !settingsFields.has(field))
  if (unknown !== undefined)
    return ` have the unknown field ${unknown}; accepted: ${[...settingsFields].join(', ')}`
  const { properties, required = [] } = schema
  if (!Array.isArray(required)) return '.required must be a list of names'
  const missing: unknown = required.find(name => typeof name !== 'string' || !Object.hasOwn(properties, name))
  if (missing !== undefined) return `.required: ${String(missing)} is not among the properties`
  const taken = new Map<string, string>()
  for (const [name, property] of Object.entries(properties)) {
    if (!/^[a-z][A-Za-z0-9]*$/.test(name)) return `.${name}: a name must be in camelCase`
    if (!isRecord(property) || typeof property.type !== 'string')
      return `.${name} must be a schema with a type`
    for (const each of [name, `${name}${fileSuffix}`]) {
      const key = environmentKey(each)
      const other = taken.get(key)
      if (other !== undefined) return `.${name} and .${other} have the same environment variable, ..._${key}`
      taken.set(key, name)
    }
  }
  return undefined
}
