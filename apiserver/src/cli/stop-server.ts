import type { Manager } from '@setpoint/controller-runtime'
import type { AuditLog } from '../audit/index.ts'
import type { LogFollower } from '../cache/index.ts'
import type { ApiServer, Health } from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import type { PluginSpecs, Plugins } from '../plugins/index.ts'
import type { WatchedFiles } from '../security/index.ts'
import type { Storage } from '../storage/index.ts'
import type { WatchHub } from '../watch/index.ts'
import type { CertificateValidity } from './certificate-validity.ts'
import { withinTime } from './within-time.ts'

export const stopDefaults = Object.freeze({
  /** Milliseconds after SIGTERM for reconciles, requests and sockets to end. Kubernetes kills after 30 s. */
  drainMs: 25_000,
  /**
   * Of these, milliseconds for reconciles and for requests to routes of plugins to finish. After that they are aborted,
   * and the lease is released.
   */
  reconcilesMs: 15_000,
  /** Milliseconds that a forced stop waits for aborted work. */
  forcedMs: 5_000,
  /** Of `drainMs`, milliseconds reserved for requests and sockets. */
  closingMs: 5_000,
  /** Milliseconds for the last events of the audit log. */
  auditMs: 5_000,
})

/** The parts of a running server. */
interface Stoppable {
  readonly app: ApiServer
  readonly health: Health
  readonly hub: WatchHub
  readonly manager: Manager | undefined
  readonly plugins: Plugins
  readonly specs: PluginSpecs
  readonly follower: LogFollower
  readonly storage: Storage
  readonly files: WatchedFiles
  readonly validity: CertificateValidity
  /** Periodic work, until `stopping`. */
  readonly chores: Promise<unknown>
  readonly stopping: AbortController
  readonly audit: AuditLog | undefined
  readonly forced: AbortSignal
  readonly log: Logger
}

/**
 * Drains and stops: takes no new work, finishes requests and reconciles, closes watches and releases the store. Aborts
 * the remaining work once `forced` is.
 */
export async function stopServer({
  app,
  health,
  hub,
  manager,
  plugins,
  specs,
  follower,
  storage,
  files,
  validity,
  chores,
  stopping,
  audit,
  forced,
  log,
}: Stoppable): Promise<void> {
  log.info({}, 'shutting down')
  health.drain()
  const deadline = performance.now() + stopDefaults.drainMs
  const closed = app.drainConnections()
  // Controllers finish their current item through the API, which must still serve. Clients' watches end spread over
  // this time.
  const patience = stopDefaults.drainMs - stopDefaults.closingMs
  const served = withinTime(closed, stopDefaults.reconcilesMs, forced)
  await withinTime(
    Promise.all([manager?.stop(), plugins.stop(served), specs.stop(), app.drainWatches(patience)]),
    patience,
    forced,
  )
  if (forced.aborted) await withinTime(Promise.resolve(manager?.stop({ force: true })), stopDefaults.forcedMs)
  hub.close()
  const areClosed = await withinTime(closed, deadline - performance.now(), forced)
  if (!areClosed) log.warn({}, 'cutting connections that are still open')
  app.close()
  files.close()
  validity.close()
  stopping.abort()
  await chores
  await follower.stop()
  await storage.close()
  // The last: stopping the rest ends watches and writes objects.
  await withinTime(Promise.resolve(audit?.close()), stopDefaults.auditMs)
  log.info({}, 'stopped')
}
