import { randomUUID } from 'node:crypto'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Api, type Collection } from './api.ts'
import { type EtcdProcess, startEtcdCluster } from './etcd.ts'
import {
  type RunningServer,
  type ServerOptions,
  type ServerProcess,
  startServer,
  startSharedServer,
} from './server.ts'

export type Store = 'embedded' | 'etcd'

/** Both stores, for `describe.each`. Every guarantee holds on either. */
export const bothStores: readonly Store[] = ['embedded', 'etcd']

/** For features that do not depend on the store: one of them, or both with `STORES=all`, as in the long run. */
export const stores: readonly Store[] = process.env.STORES === 'all' ? bothStores : ['embedded']

/** A server on one of the stores, with plugins. */
export interface World<Server extends RunningServer = ServerProcess> {
  readonly store: Store
  readonly server: Server
  readonly api: Api
  /** The first member. Only with the etcd store. */
  readonly etcd: EtcdProcess | undefined
  /** All members of etcd; empty with the embedded store. */
  readonly members: readonly EtcdProcess[]
  /** The folders of its plugins, outside the repository. */
  readonly plugins: readonly string[]
  /** Starts another server of the same control plane. Only with etcd. */
  another(): Promise<Server>
  end(): Promise<void>
}

/** A server that shares its process. */
export type SharedWorld = World<RunningServer>

interface WorldOptions extends Pick<ServerOptions, 'args' | 'env'> {
  readonly fsync?: boolean
  /** Number of etcd's members. Default 1. */
  readonly members?: number
}

/** Starts a server on a store, with copies of fixture plugins. */
export function startWorld(
  store: Store,
  fixtures: readonly string[],
  options: WorldOptions = {},
): Promise<World> {
  return worldOf(startServer, store, fixtures, options)
}

/** As `startWorld`, with servers that share a process, see `startSharedServer`. */
export function startSharedWorld(
  store: Store,
  fixtures: readonly string[],
  options: WorldOptions = {},
): Promise<SharedWorld> {
  return worldOf(startSharedServer, store, fixtures, options)
}

async function worldOf<Server extends RunningServer>(
  start: (options: ServerOptions) => Promise<Server>,
  store: Store,
  fixtures: readonly string[],
  options: WorldOptions,
): Promise<World<Server>> {
  const plugins = await Promise.all(fixtures.map(name => copyFixture(name)))
  // These tests kill processes, not the machine, so they lose nothing without fsync.
  const { args, env, fsync = false, members: size = 1 } = options
  const members = store === 'etcd' ? await startEtcdCluster(size, { unsafeNoFsync: !fsync }) : []
  const [etcd] = members
  const endpoint = members.map(member => member.endpoint).join(',')
  const serverOptions: ServerOptions = {
    store,
    plugins,
    ...(etcd && { etcd: { endpoint }, etcdPrefix: `/e2e-${randomUUID().slice(0, 8)}` }),
    ...(args && { args }),
    ...(env && { env }),
  }
  // The caller cannot stop a server whose start has failed.
  const server = await start(serverOptions).catch(async (error: unknown) => {
    await Promise.all(members.map(member => member.stop()))
    throw error
  })
  const others: Server[] = []
  return {
    store,
    server,
    api: new Api(server.url),
    etcd,
    members,
    plugins,
    async another() {
      const other = await start(serverOptions)
      others.push(other)
      return other
    },
    async end() {
      await Promise.all([server, ...others].map(each => each.stop()))
      await Promise.all(members.map(member => member.stop()))
      await Promise.all(plugins.map(dir => rm(dir, { recursive: true, force: true })))
    },
  }
}

/** Copies a plugin of `test/fixtures` to a new folder outside the repository. */
export async function copyFixture(name: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), `setpoint-${name}-`))
  // From the root, because the compiled soak runs from another folder.
  await cp(fileURLToPath(new URL(`../../test/fixtures/${name}/`, import.meta.url)), dir, { recursive: true })
  return dir
}

/** Retries until `ask` resolves. @throws its last error after a generous time */
export async function eventually<T>(ask: () => Promise<T> | T, patienceMs = 120_000): Promise<T> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (performance.now() > deadline) throw error
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  }
}

/** Creates objects one after the other. */
export async function createAll(
  collection: Collection,
  objects: readonly { readonly name: string; readonly spec?: unknown; readonly metadata?: object }[],
): Promise<void> {
  for (const { name, spec = {}, metadata = {} } of objects) await collection.create(name, spec, metadata)
}
