import { isRecord, type KeysOf, unknownKeys } from '@setpoint/controller-runtime/api'
import { quote } from '@setpoint/controller-runtime/internal'
import { load } from 'js-yaml'

/** The file is invalid. The message is a clause that begins with the place. It never has a secret in it. */
export class EncryptionConfigurationError extends Error {
  override readonly name = 'EncryptionConfigurationError'
}

/** What the file says. */
export interface EncryptionConfiguration {
  /** The first rule for a resource counts. */
  readonly rules: readonly EncryptionRule[]
}

export interface EncryptionRule {
  /** `plural`, `plural.group`, `*.group`, `*.` for the core group, or `*.*`. */
  readonly resources: readonly string[]
  /** The first one encrypts, and all decrypt. At least one. */
  readonly providers: readonly ProviderConfiguration[]
}

export type ProviderConfiguration =
  | { readonly type: 'identity' }
  /** The first key encrypts. */
  | { readonly type: LocalAlgorithm; readonly keys: readonly LocalKey[] }
  | KmsConfiguration

type LocalAlgorithm = 'aesgcm' | 'secretbox'

export interface KmsConfiguration {
  readonly type: 'kms'
  readonly name: string
  /** Absolute path of the plugin's socket. */
  readonly socket: string
  /** The longest that a call takes. */
  readonly timeoutMs: number
}

export interface LocalKey {
  readonly name: string
  readonly secret: Buffer
}

const rootKeys = { apiVersion: true, kind: true, resources: true } as const
const ruleKeys: KeysOf<EncryptionRule> = { resources: true, providers: true }
const providerKeys = { identity: true, aesgcm: true, secretbox: true, kms: true } as const
const keysKeys = { keys: true } as const
const keyKeys: KeysOf<LocalKey> = { name: true, secret: true }
const kmsKeys = { apiVersion: true, name: true, endpoint: true, timeout: true } as const

/** Bytes that a key may have. */
const keyBytes = { aesgcm: [16, 24, 32], secretbox: [32] } as const

const defaultTimeoutMs = 3_000

/**
 * Reads an `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`, YAML or JSON, and checks what Kubernetes checks.
 * @throws EncryptionConfigurationError also for an unknown key
 */
export function readEncryptionConfiguration(text: string): EncryptionConfiguration {
  const root = recordAt(parse(text), 'the configuration', rootKeys)
  if (root.apiVersion !== 'apiserver.config.k8s.io/v1')
    throw invalid('apiVersion', 'must be apiserver.config.k8s.io/v1')
  if (root.kind !== 'EncryptionConfiguration') throw invalid('kind', 'must be EncryptionConfiguration')
  const kmsNames = new Set<string>()
  return {
    rules: listAt(root, 'resources').map((value, at) => {
      const place = `resources[${at}]`
      const fields = recordAt(value, place, ruleKeys)
      // The name of a key tells which one decrypts a value.
      const taken = { kms: kmsNames, aesgcm: new Set<string>(), secretbox: new Set<string>() }
      return {
        resources: readResources(fields, place),
        providers: listAt(fields, 'providers', place).map((each, index) =>
          readProvider(each, `${place}.providers[${index}]`, taken),
        ),
      }
    }),
  }
}

/** As Kubernetes, rejects resources of one list that hide each other. */
function readResources(fields: Fields, place: string): string[] {
  const resources = listAt(fields, 'resources', place).map((text, at) => {
    const where = `${place}.resources[${at}]`
    if (typeof text !== 'string' || text === '') throw invalid(where, 'must be a resource, such as secrets')
    if (text !== text.toLowerCase()) throw invalid(where, 'must be in lowercase letters')
    if (text === '*') throw invalid(where, 'must be "*." for the core group, or "*.*" for all resources')
    if (text !== '*.*' && text.endsWith('.*'))
      throw invalid(where, 'must name one group: a resource in all groups cannot be chosen')
    return text
  })
  for (const [at, text] of resources.entries()) {
    const where = `${place}.resources[${at}]`
    const others = resources.filter((_each, index) => index !== at)
    if (others.includes(text)) throw invalid(where, 'is given twice')
    const hiding = others.find(other => isHiddenBy(text, other))
    if (hiding !== undefined) throw invalid(where, `is already part of ${quote(hiding)}`)
  }
  return resources
}

function isHiddenBy(resource: string, other: string): boolean {
  if (other === '*.*') return true
  return other.startsWith('*.') && groupIn(resource) === groupIn(other)
}

/** Returns the group of `plural.group`; the core group is ''. */
function groupIn(resource: string): string {
  const dot = resource.indexOf('.')
  return dot === -1 ? '' : resource.slice(dot + 1)
}

/** Returns the rule for a resource, if there is one. */
export function ruleFor(
  rules: readonly EncryptionRule[],
  group: string,
  plural: string,
): EncryptionRule | undefined {
  const name = group === '' ? plural : `${plural}.${group}`
  return rules.find(({ resources }) =>
    resources.some(each => each === name || each === '*.*' || each === `*.${group}` || each === `${name}.`),
  )
}

type TakenNames = Readonly<Record<'kms' | LocalAlgorithm, Set<string>>>

function readProvider(value: unknown, place: string, taken: TakenNames): ProviderConfiguration {
  if (isRecord(value) && Object.hasOwn(value, 'aescbc'))
    throw invalid(`${place}.aescbc`, 'is not supported: use aesgcm or secretbox, which detect changes')
  const fields = recordAt(value, place, providerKeys)
  const [type, ...more] = Object.keys(providerKeys).filter(key => fields[key] !== undefined)
  if (type === undefined || more.length > 0)
    throw invalid(place, `must have exactly one of ${Object.keys(providerKeys).join(', ')}`)
  if (type === 'kms') return readKms(fields.kms, `${place}.kms`, taken.kms)
  if (type === 'identity') {
    if (fields.identity !== null) recordAt(fields.identity, `${place}.identity`, {})
    return { type }
  }
  const local = type === 'aesgcm' ? type : 'secretbox'
  return { type: local, keys: readKeys(fields[local], local, `${place}.${local}`, taken[local]) }
}

function readKeys(value: unknown, type: LocalAlgorithm, within: string, names: Set<string>): LocalKey[] {
  const fields = recordAt(value, within, keysKeys)
  return listAt(fields, 'keys', within).map((value, at): LocalKey => {
    const where = `${within}.keys[${at}]`
    const key = recordAt(value, where, keyKeys)
    const name = textAt(key, 'name', where)
    // A stored value begins with the name and a colon.
    if (name.includes(':')) throw invalid(`${where}.name`, "must not contain ':'")
    if (names.has(name)) throw invalid(`${where}.name`, `is given twice: ${quote(name)}`)
    names.add(name)
    return { name, secret: readSecret(textAt(key, 'secret', where), `${where}.secret`, keyBytes[type]) }
  })
}

function readSecret(text: string, place: string, lengths: readonly number[]): Buffer {
  // `Buffer.from` skips what is not Base64.
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0)
    throw invalid(place, 'must be Base64, for example of `head -c 32 /dev/urandom | base64`')
  const secret = Buffer.from(text, 'base64')
  if (!lengths.includes(secret.length))
    throw invalid(place, `must be Base64 of ${lengths.join(', ')} bytes, is of ${secret.length}`)
  return secret
}

function readKms(value: unknown, place: string, names: Set<string>): KmsConfiguration {
  const fields = recordAt(value, place, kmsKeys)
  if (fields.apiVersion !== 'v2') throw invalid(`${place}.apiVersion`, 'must be v2')
  const name = textAt(fields, 'name', place)
  if (name.includes(':')) throw invalid(`${place}.name`, "must not contain ':'")
  if (names.has(name)) throw invalid(`${place}.name`, `is given twice: ${quote(name)}`)
  names.add(name)
  const endpoint = textAt(fields, 'endpoint', place)
  const socket = /^unix:(?:\/\/)?(\/.+)$/.exec(endpoint)?.[1]
  if (socket === undefined)
    throw invalid(`${place}.endpoint`, 'must be a Unix socket, such as unix:///var/run/kms.sock')
  return { type: 'kms', name, socket, timeoutMs: readTimeout(fields.timeout, `${place}.timeout`) }
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000 }

/** Reads a duration of Go, as far as a time-out needs it. */
function readTimeout(value: unknown, place: string): number {
  if (value === undefined || value === null) return defaultTimeoutMs
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(String(value)) ?? []
  const ms = Number(amount) * (unitMs[unit] ?? 0)
  // The log of the store is followed in order, and waits for a call.
  if (!(ms >= 1 && ms <= 30_000)) throw invalid(place, 'must be from 1ms to 30s, such as 3s')
  return ms
}

type Fields = Readonly<Record<string, unknown>>

function textAt(fields: Fields, key: string, place: string): string {
  const text = fields[key]
  if (typeof text !== 'string' || text === '') throw invalid(`${place}.${key}`, 'must be a text')
  return text
}

function listAt(fields: Fields, key: string, place?: string): unknown[] {
  const list = fields[key]
  if (!Array.isArray(list) || list.length === 0)
    throw invalid(place === undefined ? key : `${place}.${key}`, 'must be a list with at least one item')
  return list
}

function recordAt(value: unknown, place: string, known: Readonly<Record<string, true>>): Fields {
  if (!isRecord(value)) throw invalid(place, `must be a mapping with ${Object.keys(known).join(', ')}`)
  const [problem] = unknownKeys(value, known, place)
  if (problem !== undefined) throw new EncryptionConfigurationError(problem)
  return value
}

function parse(text: string): unknown {
  try {
    return load(text)
  } catch (error) {
    // The message of the parser quotes lines, and with them secrets.
    const line = error instanceof Error ? /\((\d+):\d+\)/.exec(error.message)?.[1] : undefined
    throw new EncryptionConfigurationError(
      `is not valid YAML${line === undefined ? '' : `: see line ${line}`}`,
    )
  }
}

function invalid(place: string, problem: string): EncryptionConfigurationError {
  return new EncryptionConfigurationError(`${place} ${problem}`)
}
