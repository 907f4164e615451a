import { readFileSync } from 'node:fs'
import type { Plugin, SettingsSchema } from '@setpoint/controller-runtime'
import { errorMessage, ModelError, nearestName } from '@setpoint/controller-runtime/api'
import { environmentKey, fileSuffix } from '@setpoint/controller-runtime/internal'
import { secrets } from '../log/index.ts'
import { compileSchemas, type SchemaValidator } from '../model/index.ts'
import { hasSecret, parseSetting, secretTexts, withoutSecrets } from './setting-schema.ts'

/** Where settings of plugins come from. The environment takes precedence over the configuration file. */
export interface SettingsSources {
  readonly env: Readonly<Record<string, string | undefined>>
  /** `plugins` of the configuration file, with scalars as texts: the settings of each plugin by name. */
  readonly config: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Says how to set a missing setting. Default: by its variable or in the configuration file. */
  readonly remedyOf?: (key: string) => string
}

/** The settings of a plugin are invalid. The message names settings and their sources, and no secret. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError'
}

/** A value as it was given. */
interface Given {
  readonly value: unknown
  /** For messages: `SETPOINT_PLUGIN_DEMO_URL` or `plugins.demo.url`. */
  readonly origin: string
}

/**
 * Variables that Kubernetes sets in every pod for each Service; one may be called `setpoint-plugin-...`. They count
 * only for settings that exist.
 */
const serviceLink = /_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/

/** Returns the prefix of a plugin's environment variables. */
function environmentPrefix(plugin: string): string {
  return `SETPOINT_PLUGIN_${plugin.toUpperCase().replaceAll('-', '_')}_`
}

/**
 * Reads the settings of a plugin, fills in the defaults and checks them. Reads files each time. Secrets are
 * registered with the log before anything else happens to them.
 * @param others names of the other plugins, whose variables may have the same prefix
 * @throws SettingsError that lists every problem
 */
export function readSettings(
  { name, settings: schema }: Plugin,
  { env, config, remedyOf }: SettingsSources,
  others: readonly string[],
): Readonly<Record<string, unknown>> {
  const properties = schema?.properties ?? {}
  const section = sectionOf(config, name)
  const prefix = environmentPrefix(name)
  const problems = [
    ...unknownKeys(name, section, Object.keys(properties)),
    ...unknownVariables(prefix, env, Object.keys(properties), others),
  ]
  const values: Record<string, unknown> = {}
  const origins = new Map<string, string>()
  for (const [key, property] of Object.entries(properties)) {
    const variable = `${prefix}${environmentKey(key)}`
    const place = `plugins.${name}.${key}`
    try {
      const given =
        pick(textOf(env[variable]), variable, textOf(env[`${variable}_FILE`]), `${variable}_FILE`) ??
        pick(section[key], place, section[`${key}${fileSuffix}`], `${place}${fileSuffix}`)
      if (given === undefined) continue
      if (typeof given.value === 'string' && hasSecret(property)) secrets.add(given.value)
      values[key] = parseSetting(given.value, property)
      for (const text of secretTexts(values[key], property)) secrets.add(text)
      origins.set(key, given.origin)
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error
      problems.push(error.message)
      // Reported already, and not as missing.
      origins.set(key, '')
    }
  }
  if (schema !== undefined) {
    const placeOf = (key: string) => {
      const known = origins.get(key) ?? remedyOf?.(key)
      if (known !== undefined) return known
      const [variable, place] = [`${prefix}${environmentKey(key)}`, `plugins.${name}.${key}`]
      const property = Object.hasOwn(properties, key) ? properties[key] : undefined
      const inFile =
        property !== undefined && hasSecret(property)
          ? `, or ${variable}_FILE or ${place}${fileSuffix} to the path of a file with it`
          : ''
      return `set ${variable} or ${place}${inFile}`
    }
    problems.push(...check(values, schema, placeOf))
  }
  if (problems.length > 0) throw new SettingsError(`its settings are invalid: ${problems.join('; ')}`)
  return values
}

/** Returns warnings about settings that are for no plugin. */
export function straySettings({ env, config }: SettingsSources, plugins: readonly string[]): string[] {
  const prefixes = plugins.map(environmentPrefix)
  const variables = Object.keys(env).filter(
    name =>
      name.startsWith('SETPOINT_PLUGIN_') &&
      !serviceLink.test(name) &&
      !prefixes.some(prefix => name.startsWith(prefix)),
  )
  const sections = Object.keys(config).filter(name => !plugins.includes(name))
  return [
    ...variables.map(name => `the environment variable ${name} is for no plugin and has no effect`),
    ...sections.map(name => {
      const nearest = nearestName(name, plugins)
      const advice = nearest === undefined ? '' : `; did you mean ${nearest}?`
      return `plugins.${name} of the configuration file is for no plugin and has no effect${advice}`
    }),
  ]
}

/** Fills in the defaults and returns the problems of the values. @param placeOf where a setting comes from, or '' */
function check(
  values: Record<string, unknown>,
  schema: SettingsSchema,
  placeOf: (key: string) => string,
): string[] {
  const validator = compile(schema)
  const subject = { spec: values }
  validator.applyDefaults(subject)
  const violations = validator.validate(subject).flatMap(({ path, message, reason }) => {
    const [, key = '', ...inner] = path.map(String)
    const place = placeOf(key)
    if (place === '') return []
    const property = Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined
    // The message and the names of fields may have parts of the value.
    if (property !== undefined && hasSecret(property) && reason !== 'FieldValueRequired')
      return `${key} does not match its schema (${place})`
    return `${[key, ...inner].join('.')} ${message} (${place})`
  })
  const unknown = validator
    .unknownFields(subject)
    .map(field => `${field.replace('spec.', '')} is not a setting`)
  return [...violations, ...unknown]
}

/** @throws SettingsError for a schema that is not enforced */
function compile(schema: SettingsSchema): SchemaValidator {
  try {
    return compileSchemas({ spec: withoutSecrets({ ...schema }) })
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    const message = error.message.replaceAll('schema.spec', 'settings')
    throw new SettingsError(`its settings cannot be checked: ${message}`, { cause: error })
  }
}

function unknownKeys(
  plugin: string,
  section: Readonly<Record<string, unknown>>,
  keys: readonly string[],
): string[] {
  const files = keys.map(key => `${key}${fileSuffix}`)
  const accepted = new Set([...keys, ...files])
  return Object.keys(section).flatMap(key =>
    accepted.has(key) ? [] : `plugins.${plugin}.${key} is not a setting${suggest(key, keys, files)}`,
  )
}

function unknownVariables(
  prefix: string,
  env: SettingsSources['env'],
  keys: readonly string[],
  others: readonly string[],
): string[] {
  const variables = keys.map(key => `${prefix}${environmentKey(key)}`)
  const files = variables.map(variable => `${variable}_FILE`)
  const accepted = new Set([...variables, ...files])
  const longer = others.map(environmentPrefix).filter(other => other !== prefix && other.startsWith(prefix))
  return Object.keys(env).flatMap(name => {
    if (!name.startsWith(prefix) || accepted.has(name) || textOf(env[name]) === undefined) return []
    if (serviceLink.test(name) || longer.some(other => name.startsWith(other))) return []
    return `${name} is not a setting${suggest(name, variables, files)}`
  })
}

/** @param files names that are valid too, and are not listed */
function suggest(wrong: string, names: readonly string[], files: readonly string[]): string {
  const nearest = nearestName(wrong, [...names, ...files])
  if (nearest !== undefined) return `; did you mean ${nearest}?`
  return names.length === 0 ? '; the plugin has no settings' : `; accepted: ${names.join(', ')}`
}

function sectionOf(config: SettingsSources['config'], plugin: string): Readonly<Record<string, unknown>> {
  return (Object.hasOwn(config, plugin) ? config[plugin] : undefined) ?? {}
}

/** An empty variable counts as absent, as for flags. */
function textOf(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

/**
 * Returns the value that one source gives, directly or in a file. @throws SettingsError for both, or an unreadable file
 */
function pick(value: unknown, origin: string, file: unknown, fileOrigin: string): Given | undefined {
  if (file === undefined) return value === undefined ? undefined : { value, origin }
  if (value !== undefined)
    throw new SettingsError(`${origin} and ${fileOrigin} are both set; give one of them`)
  if (typeof file !== 'string') throw new SettingsError(`${fileOrigin} must be the path of a file`)
  try {
    return { value: readFileSync(file, 'utf8').replace(/\r?\n$/, ''), origin: fileOrigin }
  } catch (error) {
    throw new SettingsError(`${fileOrigin}: the file cannot be read: ${errorMessage(error)}`, {
      cause: error,
    })
  }
}
