import { type Logger, TargetPolicy, type TargetSettings, targetSettings } from '@setpoint/controller-runtime'
import type { AuditLog } from './audit/index.ts'
import { HistoryReplay, LogFollower, ReadGate } from './cache/index.ts'
import {
  AdmissionRoom,
  Definitions,
  definitionKind,
  WebhookClient,
  type WebhookServices,
} from './definitions/index.ts'
import { CustomRoutes, ResourceApi, RouteCallers } from './http/index.ts'
import {
  accessReviews,
  BoundedNamespaces,
  type BuiltInKinds,
  builtInKinds,
  followRoles,
  KnownNamespaces,
  NamespaceLifecycle,
  QuotaBounds,
  QuotaStatus,
  QuotaUsage,
  type RbacKinds,
  RoleBounds,
  RoleKeeper,
  rbacKinds,
} from './kubernetes/index.ts'
import type { ServedModel } from './model/index.ts'
import { ModelRegistry } from './model/index.ts'
import { ActorWrites, claimIndexes, LoopbackTransport } from './plugins/index.ts'
import { Registry } from './registry/index.ts'
import { RequestQueues } from './scheduling/index.ts'
import { RbacAuthorizer } from './security/index.ts'
import type { Storage } from './storage/index.ts'
import { WatchHub } from './watch/index.ts'

/** The parts of a server over one store, without its listeners. The program and test servers share them. */
export interface ServerRooms {
  readonly storage: Storage
  readonly follower: LogFollower
  readonly gate: ReadGate
  readonly models: ModelRegistry
  readonly registry: Registry
  readonly builtIn: BuiltInKinds
  /** They are among `builtIn.all`. */
  readonly rbac: RbacKinds
  readonly quotas: QuotaBounds
  /** Its kinds are among `builtIn.all`. */
  readonly admission: AdmissionRoom
  readonly hub: WatchHub
  /** They are started with the built-in kinds. */
  readonly definitions: Definitions
  readonly authorizer: RbacAuthorizer
  /** The callers of plugins' routes and actions. */
  readonly callers: RouteCallers
  readonly routes: CustomRoutes
  readonly api: ResourceApi
  readonly queues: RequestQueues
  /** The writes of the server itself. */
  readonly writes: ActorWrites
  /** The transport for clients in this process. */
  readonly transport: LoopbackTransport
}

interface RoomsOptions {
  readonly storage: Storage
  readonly reservedDomain: string
  /** Prefix of every path: '' or '/x'. */
  readonly basePath: string
  /** Origins of OpenID Connect issuers, to which pages of plugins may send requests. Default: none. */
  readonly issuerOrigins?: readonly string[]
  /** If false, clients do not see the built-in kinds. Default true. */
  readonly kubernetesKinds?: boolean
  readonly log: Logger
  /** Undefined if requests are not audited. */
  readonly audit?: AuditLog
  /** Returns true while plugins may still add kinds. Default: never. */
  readonly isStarting?: () => boolean
  /** Where webhooks may be. Default: as `targetSettings`, and no services. */
  readonly webhooks?: WebhookOptions
}

/** Where webhooks may be that objects name, see `targetSettings`. */
export interface WebhookOptions extends Partial<TargetSettings> {
  readonly services?: WebhookServices
}

/** Returns the client of webhooks. */
function webhookClient({ allowedHosts, allowedNetworks, deniedNetworks }: WebhookOptions): WebhookClient {
  const policy = new TargetPolicy({
    allowedHosts: allowedHosts ?? targetSettings.allowedHosts.default,
    allowedNetworks: allowedNetworks ?? targetSettings.allowedNetworks.default,
    deniedNetworks: deniedNetworks ?? targetSettings.deniedNetworks.default,
  })
  return new WebhookClient({ policy })
}

/** Connects the parts. `follower.start()` starts them. */
export function assembleRooms({
  storage,
  reservedDomain,
  basePath,
  issuerOrigins = [],
  kubernetesKinds = true,
  log,
  audit,
  isStarting = () => false,
  webhooks = {},
}: RoomsOptions): ServerRooms {
  const follower = new LogFollower({ storage, log })
  const gate = new ReadGate(storage, follower)
  const models = new ModelRegistry({ hidesBuiltIn: !kubernetesKinds })
  const authorizer = new RbacAuthorizer({
    isSensitive: (group, plural) => models.isSensitive(group, plural),
  })
  const rbac = rbacKinds(authorizer)
  const others = builtInKinds()
  const definitionsKind = definitionKind()
  const webhookParts = { client: webhookClient(webhooks), services: webhooks.services ?? new Map() }
  const admission = new AdmissionRoom({
    models,
    follower,
    authorizer,
    namespaces: others.namespaces,
    registry: () => registry,
    ...webhookParts,
    log,
  })
  const builtIn = { ...others, all: [...others.all, ...rbac.all, definitionsKind, ...admission.kinds.all] }
  for (const review of accessReviews(authorizer)) models.addReview(review)
  const quotas = new QuotaBounds(new QuotaUsage({ follower, quotas: builtIn.resourceQuotas, reservedDomain }))
  const registry: Registry = new Registry({
    storage,
    reservedDomain,
    namespaces: new KnownNamespaces({ kind: builtIn.namespaces, storage, follower }),
    bounds: new BoundedNamespaces({ sources: [quotas, new RoleBounds(authorizer)], follower, gate }),
    admission: admission.admission,
    catchUp: signal => gate.pass(signal),
    cached: (served, key) => follower.entryOf(served, key),
    successorOf: served => definitions.successorOf(served),
  })
  const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log })
  const callers = new RouteCallers()
  const routes = new CustomRoutes(models, reservedDomain, callers, { basePath, issuerOrigins })
  const queues = new RequestQueues()
  const writes = new ActorWrites({ registry, audit })
  const definitions = new Definitions({
    kind: definitionsKind,
    ...{ models, routes, storage, registry, writes, follower, gate, hub, log, isStarting },
    webhooks: webhookParts,
  })
  const api = new ResourceApi({
    ...{ models, registry, follower, gate, basePath },
    actions: routes.actions,
    definitions,
  })
  const transport = new LoopbackTransport({ api, hub, queues, log, audit, isStarting })
  return {
    storage,
    follower,
    gate,
    models,
    registry,
    builtIn,
    rbac,
    quotas,
    admission,
    hub,
    definitions,
    authorizer,
    callers,
    routes,
    api,
    queues,
    writes,
    transport,
  }
}

/** Enforces a kind's unique indexes, builds its cache, and then serves it. @throws the signal's reason when aborted */
export async function startKind(
  { storage, registry, follower }: Pick<ServerRooms, 'storage' | 'registry' | 'follower'>,
  served: ServedModel,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  await claimIndexes({ storage, records: registry.records, served, log, signal })
  await follower.add(served, signal)
  served.phase = { name: 'Started' }
}

/** Returns the keeper of the default roles, to be started once the built-in kinds are served. */
export function keepRoles(
  { rbac: kinds, builtIn: { serviceAccounts }, writes: registry, follower, authorizer }: ServerRooms,
  { log, signal }: { log: Logger; signal: AbortSignal },
): RoleKeeper {
  return new RoleKeeper({ kinds, serviceAccounts, registry, follower, authorizer, log }, signal)
}

/**
 * Serves the built-in kinds, which must be registered, and keeps the namespaces and quotas. @throws the signal's reason
 * when aborted
 */
export async function startBuiltInKinds(
  rooms: ServerRooms,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  const { models, writes, storage, follower, builtIn, rbac, authorizer, quotas, admission, definitions } =
    rooms
  await Promise.all(builtIn.all.map(served => startKind(rooms, served, { log, signal })))
  signal.addEventListener('abort', followRoles(rbac, follower, authorizer), { once: true })
  signal.addEventListener('abort', admission.follow(), { once: true })
  const { resourceQuotas } = builtIn
  signal.addEventListener('abort', quotas.follow(resourceQuotas, follower), { once: true })
  void new QuotaStatus({ kind: resourceQuotas, quotas, follower, registry: writes, log }).run(signal)
  const lifecycle = new NamespaceLifecycle({
    kind: builtIn.namespaces,
    models,
    registry: writes,
    storage,
    log,
  })
  await lifecycle.ensure(signal)
  const cache = follower.cacheOf(builtIn.namespaces)
  if (cache !== undefined) lifecycle.follow(cache, signal)
  await definitions.start(signal)
}
