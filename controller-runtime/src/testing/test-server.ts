import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ApiError, isStatus } from '../api/errors.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { HttpTransport } from '../client/http-transport.ts'
import { logWarnings } from '../client/log-warnings.ts'
import type { Transport } from '../client/transport.ts'
import { refuseBuiltInKinds } from '../kinds/served-by-every-server.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { createManager, type Manager, type ManagerOptions } from '../manager/manager.ts'
import { setupPlugin } from '../manager/plugin-host.ts'
import type { Plugin } from '../plugin/plugin.ts'
import {
  type EtcdOfTest,
  type OpenTestServer,
  type PluginSettingsOfTest,
  serverEntry,
} from './server-entry.ts'

/** What a test server serves, and where it stores objects. */
export interface TestServerOptions {
  /** Their models and routes are served. `startPlugin` runs their controllers. */
  readonly plugins?: readonly Plugin[]
  /** Settings of the plugins, by plugin and setting. Checked as in the program; the environment is not read. */
  readonly settings?: PluginSettingsOfTest
  /** Further models to serve. */
  readonly models?: readonly Model[]
  /** Stores objects in etcd. Default: in a temporary folder that is removed with the server. */
  readonly etcd?: EtcdOfTest
  /** Whether the garbage collector for dependents runs. Default true. */
  readonly collector?: boolean
  /** The log of the server and its managers. Default: silent. */
  readonly log?: Logger
}

const serverKeys: KeysOf<TestServerOptions> = {
  plugins: true,
  settings: true,
  models: true,
  etcd: true,
  collector: true,
  log: true,
}
const etcdKeys: KeysOf<EtcdOfTest> = { endpoints: true, prefix: true }

/**
 * A real server in this process, made of the modules of `@setpoint/apiserver` and its own store. Validation, versions,
 * finalizers, unique indexes, selectors and watches behave as in production.
 *
 * It does not have: objects of the kind `Plugin`, the YAML resources that plugins ship, and the migration of stored
 * objects to another version.
 */
export interface TestServer extends AsyncDisposable {
  /** An in-process client with all permissions. */
  readonly client: Client
  /** The in-process transport, for further clients and managers. */
  readonly transport: Transport
  /** Listens on a free port of the loopback interface, once, and returns `http://127.0.0.1:<port>`. */
  listen(): Promise<string>
  /** Returns a transport over HTTP and WebSocket, as another process would use. Calls `listen`. */
  httpTransport(): Promise<HttpTransport>
  /**
   * Returns a manager, over `transport` by default. The test adds controllers and starts it; it is stopped with the
   * server.
   */
  manager(options?: ManagerOptions): Manager
  /** Runs the controllers of a plugin, as `setpoint serve --role controllers` does. Stopped with the server. */
  startPlugin(plugin: Plugin, options?: ManagerOptions): Promise<Manager>
  /** Returns the settings of a plugin with their defaults. @throws Error that lists the invalid ones */
  settingsOf(plugin: Plugin): Readonly<Record<string, unknown>>
  /** Stops managers, watches and connections, and removes the store. Further calls return the same promise. */
  close(): Promise<void>
}

/** The server package is not installed, or does not match the SDK. */
export class TestServerMissingError extends Error {
  override readonly name = 'TestServerMissingError'
}

/**
 * Starts a server for a test. The first call loads the server's code; later ones take about ten milliseconds, so each
 * test may have its own.
 *
 *     await using server = await startTestServer({ models: [Gadget] })
 *     await server.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
 *
 * @throws TestServerMissingError if `@setpoint/apiserver` is installed neither with the SDK nor in the current project.
 * @throws TypeError for an unknown option, for settings of a plugin that is not among `plugins`, and for models that
 * every server has, such as `Secret`.
 * @throws Error if a model cannot be served: a reserved group, or a kind that is declared twice; for invalid settings,
 * and
 *   as the `setup` of a plugin.
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  refuseUnknownKeys(options, serverKeys, 'the options of startTestServer')
  if (options.etcd !== undefined) refuseUnknownKeys(options.etcd, etcdKeys, 'etcd of startTestServer')
  const { plugins = [], models = [], settings = {}, etcd, collector = true, log = silentLogger } = options
  const names = Object.fromEntries(plugins.map(({ name }) => [name, true] as const))
  if (plugins.length === 0 && Object.keys(settings).length > 0)
    throw new TypeError(
      `settings of startTestServer are for plugin ${Object.keys(settings)[0]}, and no plugin of that name is in plugins`,
    )
  refuseUnknownKeys(settings, names, 'settings of startTestServer, which has them by plugin')
  refuseBuiltInKinds(models, 'startTestServer')
  const open = await findServer()
  const server = await open({ plugins, models, settings, collector, log, etcd })
  const transport = withOwnErrors(server.transport)
  const managers: Manager[] = []
  const manager = (given: ManagerOptions = {}) => {
    const elsewhere = given.transport ?? given.client
    const made = createManager({ log, ...(elsewhere === undefined && { transport }), ...given })
    managers.push(made)
    return made
  }
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= Promise.all(managers.map(each => each.stop())).then(() => server.close())
    return closed
  }
  return {
    client: createClient(transport, { onWarning: logWarnings(log) }),
    transport,
    listen: () => server.listen(),
    httpTransport: async () => new HttpTransport({ server: await server.listen() }),
    manager,
    async startPlugin(plugin, given = {}) {
      const made = manager(given)
      await setupPlugin(plugin, {
        transport: given.transport ?? transport,
        log: given.log ?? log,
        manager: made,
        settings: server.settingsOf(plugin),
        clock: given.clock,
      })
      made.start()
      return made
    },
    settingsOf: plugin => server.settingsOf(plugin),
    close,
    [Symbol.asyncDispose]: close,
  }
}

let found: Promise<OpenTestServer> | undefined

function findServer(): Promise<OpenTestServer> {
  found ??= importServer()
  return found
}

async function importServer(): Promise<OpenTestServer> {
  const module = await importFromProject()
  if (hasOpenTestServer(module)) return module.openTestServer
  throw new TestServerMissingError(
    `${serverEntry} has no openTestServer: install matching versions of @setpoint/apiserver and @setpoint/controller-runtime`,
  )
}

/** Imports the server from where the SDK is installed, else from the project in the working directory. */
async function importFromProject(): Promise<unknown> {
  // Typed as string, so that the compiler does not resolve it: the server is built after the SDK.
  const name: string = serverEntry
  try {
    return await import(name)
  } catch (error) {
    if (!isNotFound(error)) throw error
  }
  const { resolve } = createRequire(join(process.cwd(), 'package.json'))
  let path: string
  try {
    path = resolve(name)
  } catch (error) {
    throw new TestServerMissingError(
      'startTestServer needs the server: npm install --save-dev @setpoint/apiserver',
      { cause: error },
    )
  }
  return await import(pathToFileURL(path).href)
}

function isNotFound(error: unknown): boolean {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  return (
    code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND' || code === 'ERR_PACKAGE_PATH_NOT_EXPORTED'
  )
}

function hasOpenTestServer(module: unknown): module is { openTestServer: OpenTestServer } {
  return (
    typeof module === 'object' &&
    module !== null &&
    'openTestServer' in module &&
    typeof module.openTestServer === 'function'
  )
}

/** Rewraps errors: the server may use another copy of the SDK than the test, with another ApiError class. */
function withOwnErrors(transport: Transport): Transport {
  return {
    request: request => transport.request(request),
    async watch(path, options) {
      try {
        return await transport.watch(path, options)
      } catch (error) {
        throw ownError(error)
      }
    },
  }
}

function ownError(error: unknown): unknown {
  if (error instanceof ApiError || !(error instanceof Error) || !('toStatus' in error)) return error
  const status: unknown = typeof error.toStatus === 'function' ? error.toStatus() : undefined
  if (!isStatus(status)) return error
  return new ApiError(status.reason, status.message, status.details, { cause: error })
}
