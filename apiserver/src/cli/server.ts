import { setMaxListeners } from 'node:events'
import { Collector, createManager, type Logger, type Manager } from '@setpoint/controller-runtime'
import { EventKeeper } from '@setpoint/controller-runtime/internal'
import { ConsistencyCheck, UnreadableObjects } from '../cache/index.ts'
import { ApiServer, consolePath, Health, watchLimitsWithin } from '../http/index.ts'
import { SigningKeys } from '../kubernetes/index.ts'
import type { LogLosses } from '../log/index.ts'
import {
  AdmissionMetrics,
  countConversions,
  describeAudit,
  describeLog,
  describeProgram,
  describeQueues,
  describeSpace,
  Metrics,
  StorageMetrics,
} from '../metrics/index.ts'
import {
  installedSources,
  type Plugins,
  type ReloadOutcome,
  ServedKinds,
  startConsole,
} from '../plugins/index.ts'
import { programCommit, programVersion } from '../program-version.ts'
import { assembleRooms, type ServerRooms } from '../rooms.ts'
import { LocalOrigins, NamedOrigins, type Origins, WatchedFiles } from '../security/index.ts'
import { compactRegularly, FormatChecked, Fullness, SpaceWatch, StoreFormatError } from '../storage/index.ts'
import { WatchConnections } from '../watch/index.ts'
import { openAudit } from './audit.ts'
import { authenticate } from './authentication.ts'
import { CertificateValidity } from './certificate-validity.ts'
import { renewCertificates } from './certificates.ts'
import { electionOf } from './election.ts'
import { encrypted, openEncryption, reloadEncryption } from './encryption.ts'
import { etcdCertificates } from './etcd-certificates.ts'
import { etcdLogin } from './etcd-login.ts'
import type { SettingsInForce } from './flags-settings.ts'
import { listen } from './listen.ts'
import { openStorage } from './open-storage.ts'
import type { ServerOptions } from './options.ts'
import { serveBackup } from './serve-backup.ts'
import { assemblePlugins, startOwnKinds } from './server-plugins.ts'
import { stopDefaults, stopServer } from './stop-server.ts'
import { withinTime } from './within-time.ts'

export const serverDefaults = Object.freeze({
  /** Milliseconds that the listening line waits for plugins to start. The port responds with 503 during that time. */
  announceMs: 10_000,
  /** Milliseconds that the start waits for a store to tell its format. Later its first call does. */
  formatMs: 2_000,
})

/** A running server. */
interface RunningServer {
  /** `http://host:port<base path>`, with the real port. */
  readonly url: string
  /** The URL of the console, if it is served once the start has ended. */
  readonly consoleUrl: string | undefined
  /**
   * Drains and stops: takes no new work, finishes requests and reconciles, closes watches and releases the store. With
   * `force`, also on a later call, aborts the remaining work.
   */
  stop(options?: { readonly force?: boolean }): Promise<void>
  /** Reloads the plugin of a source, by its label, see `Plugins.reload`. */
  reloadPlugin(label: string): Promise<ReloadOutcome>
}

/**
 * Assembles and starts the rooms: the store, the log, the API, then the plugins. Resolves when it serves, or once
 * `stopAsked` is aborted. `explainFault` adds to the 500s of faults.
 * @throws StoreLockedError, StoreFolderError, StoreFormatError, RangeError, or the error of `listen`
 */
export async function startServer(
  { options, settings }: { readonly options: ServerOptions; readonly settings: SettingsInForce },
  log: Logger,
  losses: () => LogLosses,
  stopAsked?: AbortSignal,
  explainFault?: (error: unknown) => string | undefined,
): Promise<RunningServer> {
  const { store } = options
  const files = new WatchedFiles(log)
  const validity = new CertificateValidity(log)
  const watched = { files, validity, log }
  const audit = options.audit && (await openAudit(options.audit, () => rooms.models, watched))
  const tls = store.kind === 'etcd' ? etcdCertificates(store.tls, watched) : undefined
  const auth = store.kind === 'etcd' ? etcdLogin(store, watched) : undefined
  const storageMetrics = new StorageMetrics()
  const fullness = new Fullness(log)
  const encryption = options.encryption && (await openEncryption(options.encryption))
  const stored = await openStorage(store, { tls, auth }, storageMetrics, fullness, log)
  const readable = encryption === undefined ? stored : await encrypted(stored, encryption)
  const storage = new FormatChecked(readable, programVersion())
  await refuseNewerFormat(storage)
  const space = new SpaceWatch({ storage, fullness, log })
  const stopping = new AbortController()
  // Every kind of the server listens to it while it starts.
  setMaxListeners(0, stopping.signal)
  const { reservedDomain, basePath, kubernetesKinds } = options
  const oidc = options.authentication?.oidc ?? []
  let plugins: Plugins | undefined
  const isStarting = () => plugins?.isStarting ?? true
  const rooms = assembleRooms({
    storage,
    reservedDomain,
    basePath,
    kubernetesKinds,
    issuerOrigins: oidc.map(({ issuer }) => new URL(issuer).origin),
    log,
    audit,
    isStarting,
    webhooks: options.webhooks,
  })
  const { follower, models, hub, routes, api, queues, authorizer } = rooms
  const consistency = new ConsistencyCheck({ storage, follower, log })
  const signingKeys = new SigningKeys(storage)
  const unreadable = new UnreadableObjects({ storage, follower, signingKeys, log })
  if (encryption !== undefined && options.encryption !== undefined)
    await reloadEncryption(encryption, options.encryption, {
      files,
      log,
      reloaded: () => void unreadable.retry(stopping.signal),
    })
  const metrics = new Metrics({ models, follower, hub, consistency, signingKeys })
  rooms.admission.observe(new AdmissionMetrics(metrics.registry))
  rooms.definitions.observe(countConversions(metrics.registry))
  describeLog(metrics.registry, losses)
  describeQueues(metrics.registry, queues)
  describeSpace(metrics.registry, space)
  if (audit !== undefined) describeAudit(metrics.registry, audit)
  storageMetrics.register(metrics.registry, store.kind)
  const manager = createControllers(options, rooms, metrics, isStarting, log)
  const health = new Health({
    storage,
    space,
    unreadable,
    follower,
    plugins: () => plugins?.progress ?? [],
    manager,
  })
  describeProgram(metrics.registry, {
    version: programVersion(),
    commit: programCommit(),
    role: options.role,
    store: store.kind,
    files,
    certificates: validity,
    health,
  })
  const { access, issuer, clients } = authenticate(options.authentication, {
    rooms,
    metrics,
    signingKeys,
    files,
    log,
  })
  const watchConnections = new WatchConnections(watchLimitsWithin(options.watchLimits))
  const app = new ApiServer({
    models,
    api,
    routes,
    hub,
    watchConnections,
    origins: originsOf(options, log),
    access,
    issuer,
    authorizer,
    queues,
    health,
    metrics,
    log,
    audit,
    isStarting,
    explainFault,
    basePath,
    signIn: {
      required: options.authentication !== undefined,
      issuers: oidc.map(({ issuer, audience }) => ({ issuer, clientId: audience })),
    },
    settings,
    // What is encrypted in the store stays so.
    backup: options => serveBackup(stored, options),
    slowRequestMs: options.slowRequestMs,
    tls: options.tls && {
      cert: options.tls.cert.text,
      key: options.tls.key.text,
      clientCa: options.authentication?.clientCa?.text,
    },
  })
  if (options.tls !== undefined) renewCertificates(app, { ...options.tls, clients }, watched)
  let url: string
  try {
    url = await listen(app, options)
  } catch (error) {
    files.close()
    validity.close()
    await storage.close()
    throw error
  }
  follower.start()
  // The embedded store compacts itself.
  const compaction =
    store.kind === 'etcd'
      ? compactRegularly({ storage, space, log, signal: stopping.signal })
      : Promise.resolve()
  const chores = Promise.all([
    compaction,
    space.run(stopping.signal),
    consistency.run(stopping.signal),
    unreadable.run(stopping.signal),
  ])

  const own = startOwnKinds(rooms, reservedDomain, { log, signal: stopping.signal })
  const { plugins: running, specs } = assemblePlugins({
    options,
    rooms,
    own,
    metrics,
    manager,
    log,
    signal: stopping.signal,
  })
  plugins = running
  // Even if the store is unavailable, so that the kinds of plugins get 503 until they are ready, not 404.
  const loading = Promise.resolve(options.plugins ?? installedSources()).then(each => running.start(each))
  const started = Promise.all([
    // From then on readiness waits for the plugins. Their import and setup have time-outs.
    Promise.all([own.ready, loading]).then(() => health.started()),
    // An election over a kind that is not served yet would start with a back-off.
    own.ready.then(() => manager?.start()),
    loading.then(({ starting }) => starting),
    options.console &&
      startConsole(options.plugins, {
        routes,
        transport: rooms.transport,
        log,
        signal: stopping.signal,
      }),
  ])
  await withinTime(started, serverDefaults.announceMs, stopAsked)

  let stopped: Promise<void> | undefined
  const forced = new AbortController()
  return {
    url,
    consoleUrl: routes.pages.has(consolePath) ? `${url}${consolePath}` : undefined,
    stop({ force = false } = {}) {
      if (force) forced.abort()
      stopped ??= stopServer({
        app,
        health,
        hub,
        manager,
        plugins: running,
        specs,
        follower,
        storage,
        files,
        validity,
        chores,
        stopping,
        audit,
        forced: forced.signal,
        log,
      })
      return stopped
    },
    reloadPlugin: label => running.reload(label),
  }
}

/**
 * Ends the start if a newer program has changed the format of the store. A store that is away is checked when it is
 * back.
 */
async function refuseNewerFormat(storage: FormatChecked): Promise<void> {
  try {
    await storage.check({ signal: AbortSignal.timeout(serverDefaults.formatMs) })
  } catch (error) {
    if (!(error instanceof StoreFormatError)) return
    await storage.close()
    throw error
  }
}

/**
 * Returns the manager of the role `all`, with the collector and the keeper of events. Of all servers on one etcd, the
 * holder of the lease runs the controllers. On the embedded store there is only one process and no election, so a
 * restart after a crash does not wait for a lease to expire.
 */
function createControllers(
  options: ServerOptions,
  { transport, models }: Pick<ServerRooms, 'transport' | 'models'>,
  { registry }: Pick<Metrics, 'registry'>,
  isStarting: () => boolean,
  log: Logger,
): Manager | undefined {
  const { role, store, reservedDomain } = options
  if (role !== 'all') return undefined
  const manager = createManager({
    transport,
    registry,
    log,
    drainTimeoutMs: stopDefaults.reconcilesMs,
    leaderElection: store.kind === 'etcd' ? electionOf(options) : undefined,
  })
  const kinds = new ServedKinds(models, isStarting)
  manager.add(new Collector({ kinds, reservedDomain, metrics: manager.metrics }))
  manager.add(new EventKeeper())
  return manager
}

/** Without authentication, pages of other machines could do everything. */
function originsOf({ authentication, allowedOrigins, tls }: ServerOptions, log: Logger): Origins {
  if (authentication !== undefined) return new NamedOrigins(allowedOrigins, { isSecure: tls !== undefined })
  if (allowedOrigins.length > 0)
    log.warn({ allowedOrigins }, 'without authentication only pages of this machine may call')
  return new LocalOrigins()
}
