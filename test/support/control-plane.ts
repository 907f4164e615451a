import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Api } from './api.ts'
import { type EtcdProcess, startEtcdCluster } from './etcd.ts'
import { leasesOf, turnsOf } from './kinds.ts'
import {
  builtProgram,
  type Exit,
  type Running,
  type ServerProcess,
  spawnProgram,
  startServer,
} from './server.ts'
import { copyFixture, eventually } from './worlds.ts'

/** The lease that the controllers' processes elect their leader with. */
export const leaseName = 'setpoint-controllers'

/** A process with `--role controllers` that runs the controllers of the fixture `turns-plugin`. */
export class ControllersProcess {
  /** The name that it writes into the objects. */
  readonly name: string
  readonly #args: readonly string[]
  readonly #env: Readonly<Record<string, string>>
  #running: Running | undefined

  constructor(name: string, server: ServerProcess, plugin: string) {
    this.name = name
    this.#args = ['serve', '--role', 'controllers', '--server', server.url, '--plugin', plugin]
    this.#env = { TURNS_WHO: name }
  }

  /** @param program default the built one of this checkout */
  async start(program = builtProgram): Promise<void> {
    this.#running = spawnProgram(this.#args, { env: this.#env, program })
    await this.#running.says(/^setpoint controllers running against /)
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit | undefined> {
    return this.#running?.kill(signal)
  }

  /** Suspends the process, as a machine may be: it holds the lease but does not renew it. */
  pause(): void {
    this.#running?.child.kill('SIGSTOP')
  }

  resume(): void {
    this.#running?.child.kill('SIGCONT')
  }
}

export interface ControlPlaneOptions {
  /** Skips fsync. Data survives a killed process, but not a crashed machine. */
  readonly unsafeNoFsync?: boolean
  /** Number of objects that controllers keep writing. Default 3. */
  readonly turns?: number
  /** Number of etcd's members. Default 3. */
  readonly members?: number
  /** Path of the program that is started first. Default the built one of this checkout. */
  readonly program?: string
}

/** A deployment on one machine: etcd, two servers and two processes of controllers. */
export class ControlPlane {
  readonly members: readonly EtcdProcess[]
  readonly servers: readonly ServerProcess[]
  /** The first uses the first server, the second the second. */
  readonly controllers: readonly ControllersProcess[]
  readonly #folders: readonly string[]

  private constructor(
    members: readonly EtcdProcess[],
    servers: readonly ServerProcess[],
    controllers: readonly ControllersProcess[],
    folders: readonly string[],
  ) {
    this.members = members
    this.servers = servers
    this.controllers = controllers
    this.#folders = folders
  }

  /** Starts everything. The first process of controllers leads. */
  static async start({
    unsafeNoFsync = false,
    turns = 3,
    members: size = 3,
    program = builtProgram,
  }: ControlPlaneOptions = {}): Promise<ControlPlane> {
    const plugins = await Promise.all(['items-plugin', 'turns-plugin'].map(copyFixture))
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-data-'))
    const members = await startEtcdCluster(size, { unsafeNoFsync })
    const servers: ServerProcess[] = []
    const controllers: ControllersProcess[] = []
    const plane = new ControlPlane(members, servers, controllers, [...plugins, dataDir])
    try {
      const endpoint = members.map(member => member.endpoint).join(',')
      const args = ['--role', 'apiserver']
      const start = () => startServer({ store: 'etcd', etcd: { endpoint }, plugins, dataDir, args, program })
      servers.push(...(await Promise.all([start(), start()])))
      for (let n = 0; n < turns; n++) {
        const everyMs = 100
        await eventually(() => turnsOf(plane.api()).create(`turn-${n}`, { everyMs }))
      }
      const [first, second] = servers
      const plugin = plugins[1]
      if (first === undefined || second === undefined || plugin === undefined) throw new Error('incomplete')
      controllers.push(
        new ControllersProcess('a', first, plugin),
        new ControllersProcess('b', second, plugin),
      )
      for (const each of controllers) {
        await each.start(program)
        await eventually(() => leasesOf(plane.api()).read(leaseName))
      }
      return plane
    } catch (error) {
      await plane.end()
      throw error
    }
  }

  /** Returns a client of the next server, in turn. */
  api(): Api {
    this.#turn += 1
    return new Api(this.servers[this.#turn % this.servers.length]?.url ?? '')
  }
  #turn = 0

  async end(): Promise<void> {
    await Promise.all(this.controllers.map(each => each.kill('SIGKILL')))
    await Promise.all(this.servers.map(each => each.kill('SIGKILL')))
    await Promise.all(this.members.map(each => each.stop()))
    await Promise.all(this.#folders.map(dir => rm(dir, { recursive: true, force: true })))
  }
}
