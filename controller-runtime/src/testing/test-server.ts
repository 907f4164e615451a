import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ApiError, isStatus } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import { type Client, createClient } from '../client/client.ts'
import { HttpTransport } from '../client/http-transport.ts'
import type { Transport } from '../client/transport.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { createManager, type Manager, type ManagerOptions } from '../manager/manager.ts'
import { setupPlugin } from '../manager/plugin-host.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { type EtcdOfTest, type OpenTestServer, serverEntry } from './server-entry.ts'

/** What a test server serves, and on which store. */
export interface TestServerOptions {
  /** Their models are served, and once the server listens their routes. Their controllers run when `startPlugin` is called. */
  readonly plugins?: readonly Plugin[]
  /** Models that are served beside those. */
  readonly models?: readonly Model[]
  /** Keep the objects in an etcd. Without it: in a fresh folder among the temporary ones, gone with the server. */
  readonly etcd?: EtcdOfTest
  /** Whether the dependents of what is deleted are collected, as the program does. Default true. */
  readonly collector?: boolean
  /** What the server and the managers have to say. Silent by default. */
  readonly log?: Logger
}

/**
 * A real server in this process: the rooms of `@setpoint/apiserver` over a store of their own, so that validation,
 * versions, finalizers, unique indexes, selectors and watches are those of the program.
 *
 * What the program has and this has not: objects of the kind `Plugin`, and the YAML that plugins ship.
 */
export interface TestServer extends AsyncDisposable {
  /** In process, as somebody who may do everything. */
  readonly client: Client
  /** In process; the way to the server for clients and managers of one's own. */
  readonly transport: Transport
  /** Opens a free port of the loopback interface, the first time it is called, and answers `http://127.0.0.1:<port>`. */
  listen(): Promise<string>
  /** A way to the server over HTTP and WebSocket, as a process of its own would have. Listens. */
  httpTransport(): Promise<HttpTransport>
  /**
   * A manager of this server, over `transport` unless another is given. The test adds controllers and starts it; it is
   * stopped with the server.
   */
  manager(options?: ManagerOptions): Manager
  /** Runs the controllers of a plugin, as `setpoint serve --role controllers` does. Its manager is stopped with the server. */
  startPlugin(plugin: Plugin, options?: ManagerOptions): Promise<Manager>
  /** Stops managers, watches and connections, and removes the store. Calling it again answers the same promise. */
  close(): Promise<void>
}

/** There is no server to start: what to install, or what is wrong with what is installed. */
export class TestServerMissingError extends Error {
  override readonly name = 'TestServerMissingError'
}

/**
 * Starts a server for a test. Each test may have its own: after the first, which loads the server's code, one takes
 * about ten milliseconds.
 *
 *     await using server = await startTestServer({ models: [Gadget] })
 *     await server.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
 *
 * @throws TestServerMissingError when `@setpoint/apiserver` is not installed beside the SDK or in the working folder's project.
 * @throws Error when a model cannot be served: a reserved group, or a kind that is declared twice.
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const { plugins = [], models = [], etcd, collector = true, log = silentLogger } = options
  const open = await findServer()
  const server = await open({ plugins, models, collector, log, ...(etcd && { etcd }) })
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
    client: createClient(transport),
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
        ...(given.clock && { clock: given.clock }),
      })
      made.start()
      return made
    },
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
    `${serverEntry} has no openTestServer: the versions of @setpoint/apiserver and @setpoint/controller-runtime do not belong together`,
  )
}

/** From where the SDK is installed, else from the project of the working folder. */
async function importFromProject(): Promise<unknown> {
  // A name that is not known before: the compiler of the SDK must not look for the server, which is built after it.
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

/** The server may have another copy of the SDK than the test, and an error of one copy is none of the other's. */
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
