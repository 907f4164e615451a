import { isEncrypted, StoredInTheClearError, UndecryptableError } from '../storage/index.ts'
import {
  type EncryptionConfiguration,
  type EncryptionRule,
  type KmsConfiguration,
  ruleFor,
} from './configuration.ts'
import { KmsProvider } from './kms-provider.ts'
import { aesGcm, identity, secretbox } from './local-providers.ts'
import type { MaybeLater, Provider } from './provider.ts'

/**
 * Encrypts and decrypts values of the store as the configuration says for their resource. The first provider of a
 * resource encrypts, and all decrypt. The prefix of a value says which one does.
 *
 * A resource without a rule is stored in the clear. So are keys that hold no content of objects, such as the versions
 * of the kinds.
 */
export class Encryption {
  #rules: readonly EncryptionRule[] = []
  /** By `<group>/<plural>`, one entry for each kind. */
  readonly #providers = new Map<string, readonly Provider[]>()
  readonly #byRule = new Map<EncryptionRule, readonly Provider[]>()
  /** By name. A configuration that keeps a key service keeps what was fetched from it. */
  #services: KeyServices = new Map()

  constructor(configuration: EncryptionConfiguration) {
    this.use(configuration)
  }

  /** Uses another configuration from now on. */
  use({ rules }: EncryptionConfiguration): void {
    const before = this.#services
    const services: KeyServices = new Map()
    this.#services = services
    this.#rules = rules
    this.#providers.clear()
    this.#byRule.clear()
    for (const rule of rules) this.#byRule.set(rule, this.#providersOf(rule, before))
    const kept = new Set(Array.from(this.#services.values(), ({ provider }) => provider))
    for (const { provider } of before.values()) if (!kept.has(provider)) provider.close()
  }

  close(): void {
    this.use({ rules: [] })
  }

  /** Returns the value to store at a key. @throws KeyUnavailableError */
  encrypt(key: string, value: Uint8Array): MaybeLater<Uint8Array> {
    const writer = this.#providersAt(key)?.[0]
    return writer === undefined || writer === identity ? value : writer.encrypt(key, value)
  }

  /** @throws UndecryptableError, KeyUnavailableError */
  decrypt(key: string, stored: Buffer): MaybeLater<Buffer> {
    const providers = this.#providersAt(key)
    return providers === undefined ? stored : readerOf(providers, stored).decrypt(key, stored)
  }

  /** Returns true if a value is stored as `encrypt` would store it. */
  isCurrent(key: string, stored: Buffer): MaybeLater<boolean> {
    const writer = this.#providersAt(key)?.[0]
    return writer === undefined || (begins(stored, writer) && writer.isCurrent(stored))
  }

  /** Undefined for a key that holds no content of objects. */
  #providersAt(key: string): readonly Provider[] | undefined {
    const resource = resourceAt(key)
    if (resource === undefined) return undefined
    let providers = this.#providers.get(resource)
    if (providers === undefined) {
      const [group = '', plural = ''] = resource.split('/')
      const rule = ruleFor(this.#rules, group, plural)
      providers = (rule && this.#byRule.get(rule)) ?? inTheClear
      this.#providers.set(resource, providers)
    }
    return providers
  }

  #providersOf({ providers }: EncryptionRule, before: KeyServices): Provider[] {
    return providers.flatMap((each): Provider[] => {
      if (each.type === 'identity') return [identity]
      if (each.type !== 'kms') return each.keys.map(each.type === 'aesgcm' ? aesGcm : secretbox)
      const known = before.get(each.name)
      const isSame =
        known?.configuration.socket === each.socket && known.configuration.timeoutMs === each.timeoutMs
      const provider = isSame ? known.provider : new KmsProvider(each)
      this.#services.set(each.name, { configuration: each, provider })
      return [provider]
    })
  }
}

type KeyServices = Map<string, { readonly configuration: KmsConfiguration; readonly provider: KmsProvider }>

const inTheClear: readonly Provider[] = Object.freeze([identity])

/**
 * Returns the resource that a value in the store belongs to, as `<group>/<plural>`: that of an object, and `/secrets`
 * for the keys of the server itself. Other values name objects, versions and indexes, and have no content of objects.
 */
function resourceAt(key: string): string | undefined {
  if (key.startsWith('authentication/')) return '/secrets'
  if (!key.startsWith('objects/')) return undefined
  const group = key.indexOf('/') + 1
  const plural = key.indexOf('/', group) + 1
  const end = key.indexOf('/', plural)
  return plural === 0 || end === -1 ? undefined : key.slice(group, end)
}

/** @throws UndecryptableError if no provider has the key */
function readerOf(providers: readonly Provider[], stored: Buffer): Provider {
  const reader = providers.find(each => begins(stored, each))
  if (reader !== undefined) return reader
  if (!isEncrypted(stored))
    throw new StoredInTheClearError(
      'is stored in the clear, which --encryption-provider-config does not allow without the provider identity',
    )
  // k8s:enc:<algorithm>:<version>:<name>:
  const [, , algorithm = '', , name = ''] = stored.toString('latin1', 0, longestPrefix).split(':')
  throw new UndecryptableError(
    `is encrypted with the key ${JSON.stringify(name)} of ${algorithm}, which --encryption-provider-config does not have for this resource`,
  )
}

const longestPrefix = 300

function begins(stored: Buffer, { prefix }: Provider): boolean {
  if (prefix === '') return !isEncrypted(stored)
  return stored.toString('utf8', 0, Buffer.byteLength(prefix)) === prefix
}
