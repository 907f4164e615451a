import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { LogFollower } from '../../cache/index.ts'
import { type Fields, recordOf } from '../../kubernetes/index.ts'
import type { Logger } from '../../log/index.ts'
import type { ModelRegistry, ServedModel, ServedVersion } from '../../model/index.ts'
import { notFound, type Registry } from '../../registry/index.ts'
import type { Authorizer } from '../../security/index.ts'
import type { WebhookClient, WebhookServices } from '../webhooks/index.ts'
import { Configurations } from './configurations.ts'
import { ConfiguredAdmission } from './configured-admission.ts'
import { type AdmissionKinds, admissionKinds, ParamAccess } from './kinds/index.ts'
import type { PolicyObserver } from './policies.ts'
import type { ParamSource } from './policy-params.ts'
import type { NamespaceSource } from './selection.ts'
import { WebhookCaller, type WebhookObserver } from './webhook-caller.ts'

/** Counts what webhooks and policies do. */
export type AdmissionObserver = WebhookObserver & PolicyObserver

interface AdmissionRoomParts {
  readonly models: Pick<ModelRegistry, 'findKind'>
  readonly follower: Pick<LogFollower, 'cacheOf' | 'entryOf'>
  readonly authorizer: Authorizer
  readonly namespaces: ServedModel
  /** Is called once the registry exists, which is given the admission. */
  readonly registry: () => Pick<Registry, 'readLive'>
  readonly client: Pick<WebhookClient, 'post'>
  readonly services: WebhookServices
  readonly log: Logger
}

/** The parts of admission in a server. */
export class AdmissionRoom {
  readonly kinds: AdmissionKinds
  /** For the registry. */
  readonly admission: ConfiguredAdmission
  readonly #configurations = new Configurations()
  readonly #follower: AdmissionRoomParts['follower']
  #observer: AdmissionObserver | undefined

  constructor(parts: AdmissionRoomParts) {
    const { models, follower, authorizer, client, services, log } = parts
    this.#follower = follower
    this.kinds = admissionKinds(
      new ParamAccess({
        authorizer,
        pluralOf: (apiVersion, kind) => models.findKind(apiVersion, kind)?.model.plural,
        policyNamed: name => {
          const entry = follower.entryOf(this.kinds.policies, name)
          return entry && recordOf(parsed(entry).spec)
        },
      }),
    )
    const observer: AdmissionObserver = {
      called: call => this.#observer?.called(call),
      failedOpen: (name, type) => this.#observer?.failedOpen(name, type),
      decided: (...decision) => this.#observer?.decided(...decision),
    }
    const caller = new WebhookCaller({
      client,
      services,
      observer,
      failed: ({ configuration, name }, err) =>
        log.warn({ configuration, webhook: name, err }, 'failed to call admission webhook'),
    })
    const sources = {
      namespaces: new CachedNamespaces(parts),
      authorizer,
      params: new CachedParams(parts),
      observer,
    }
    this.admission = new ConfiguredAdmission({ configurations: this.#configurations, caller, sources })
  }

  /** Counts in `observer` from now on. */
  observe(observer: AdmissionObserver): void {
    this.#observer = observer
  }

  /** Follows the caches of the kinds, which must be complete. Returns a function that ends it. */
  follow(): () => void {
    return this.#configurations.follow(this.kinds, this.#follower)
  }
}

function parsed({ bytes }: { readonly bytes: Buffer }): Fields {
  return recordOf(JSON.parse(bytes.toString()))
}

/** Namespaces in this server's cache. Whether one is missing is confirmed by a read of the store. */
class CachedNamespaces implements NamespaceSource {
  readonly #parts: Pick<AdmissionRoomParts, 'follower' | 'namespaces' | 'registry'>

  constructor(parts: Pick<AdmissionRoomParts, 'follower' | 'namespaces' | 'registry'>) {
    this.#parts = parts
  }

  async get(name: string): Promise<Fields> {
    const { follower, namespaces, registry } = this.#parts
    const found = follower.entryOf(namespaces, name) ?? (await registry().readLive(namespaces, name))
    if (found === undefined) throw notFound(namespaces, name)
    return parsed(found)
  }
}

/** Parameters of policies in this server's caches. */
class CachedParams implements ParamSource {
  readonly #parts: Pick<AdmissionRoomParts, 'follower' | 'models'>

  constructor(parts: Pick<AdmissionRoomParts, 'follower' | 'models'>) {
    this.#parts = parts
  }

  kind(apiVersion: string, kind: string): ServedModel | undefined {
    return this.#parts.models.findKind(apiVersion, kind)
  }

  get(served: ServedModel, version: ServedVersion, key: ObjectKey): Fields | undefined {
    const cache = this.#parts.follower.cacheOf(served)
    const entry = cache?.store.get(key)
    return cache && entry && parsed({ bytes: cache.bytesOf(entry, version) })
  }

  list(
    served: ServedModel,
    version: ServedVersion,
    namespace: string | undefined,
    matches: (labels: Readonly<Record<string, string>>) => boolean,
  ): readonly Fields[] | undefined {
    const cache = this.#parts.follower.cacheOf(served)
    if (cache === undefined) return undefined
    const found: Fields[] = []
    cache.store.snapshot().objects.forEachValue(entry => {
      if (namespace !== undefined && entry.namespace !== namespace) return
      if (matches(entry.labels)) found.push(parsed({ bytes: cache.bytesOf(entry, version) }))
    })
    return found
  }
}
