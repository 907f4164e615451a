import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { makeCertificates } from '../support/certificates.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { killAtExit } from '../support/kill-at-exit.js'
import { freePort } from '../support/ports.ts'
import { Users } from '../support/users.ts'
import { copyFixture, type Store } from '../support/worlds.ts'
import { call } from './call.ts'
import { neighbourhood } from './witness.ts'

/** The resources that the program gets. */
export const targetLimits = Object.freeze({
  /** MiB of `--max-old-space-size`. */
  heapMiB: 1024,
  /** Of `ulimit -n`. */
  descriptors: 1024,
  /** Milliseconds to start, before it is killed. */
  startMs: 120_000,
})

/** How a server is set up. Attacks that name the same setup share a server. */
export interface Setup {
  readonly scheme: 'http' | 'https'
  /** `local` is a server without authentication. */
  readonly access: 'tokens' | 'local'
  /** `unread` leaves standard error in its pipe. */
  readonly stderr: 'read' | 'unread'
  /** `bare` is a server of `node:http` or `node:https` that sends the same object to every request. */
  readonly program: 'setpoint' | 'bare'
}

export const usual: Setup = Object.freeze({
  scheme: 'http',
  access: 'tokens',
  stderr: 'read',
  program: 'setpoint',
})

/** The callers that the token file knows. The writer is an admin because no built-in group may only write. */
const groups = Object.freeze({
  neighbour: ['setpoint:admins'],
  writer: ['setpoint:admins'],
  viewer: ['setpoint:viewers'],
})
export type User = keyof typeof groups

const program = fileURLToPath(new URL('../../apiserver/bin/setpoint.js', import.meta.url))
// From the root: the long form runs compiled, in another folder.
const bareProgram = fileURLToPath(new URL('../../test/attack/bare-server.js', import.meta.url))
const plugins = ['items-plugin', 'echo-plugin', 'failing-plugin']

/** The built program with a small heap and few descriptors. */
export class Target implements AsyncDisposable {
  readonly setup: Setup
  readonly store: Store
  readonly port: number
  /** The program creates it. */
  readonly dataDir: string
  readonly users: Users<User>
  /** With that store only. */
  readonly etcd: EtcdProcess | undefined
  readonly #folder: string
  /** The program and its arguments. */
  readonly #command: readonly string[]
  readonly #cleanUps: readonly (() => Promise<unknown>)[]
  #child: ChildProcess | undefined
  #closed: Promise<unknown> = Promise.resolve()
  #stderr = ''

  private constructor(parts: {
    setup: Setup
    store: Store
    port: number
    folder: string
    users: Users<User>
    etcd: EtcdProcess | undefined
    command: readonly string[]
    cleanUps: readonly (() => Promise<unknown>)[]
  }) {
    this.setup = parts.setup
    this.store = parts.store
    this.port = parts.port
    this.users = parts.users
    this.etcd = parts.etcd
    this.#folder = parts.folder
    this.dataDir = join(parts.folder, 'data')
    this.#command = parts.command
    this.#cleanUps = parts.cleanUps
  }

  static async start(store: Store, setup: Setup): Promise<Target> {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-attack-'))
    const copies = await Promise.all(plugins.map(copyFixture))
    const port = await freePort()
    const users = await Users.make(groups)
    const certificates = setup.scheme === 'https' ? await makeCertificates() : undefined
    const etcd = store === 'etcd' ? await startEtcd({ unsafeNoFsync: true }) : undefined
    const serve = [program, 'serve', '--listen', `127.0.0.1:${port}`, '--data-dir', join(folder, 'data')]
    const bare = [bareProgram, String(port), ...(certificates ? [certificates.cert, certificates.key] : [])]
    const target = new Target({
      ...{ setup, store, port, folder, users, etcd },
      command:
        setup.program === 'bare'
          ? bare
          : [
              ...serve,
              ...(etcd
                ? ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', `/attack-${randomUUID()}`]
                : []),
              ...(setup.access === 'tokens' ? users.args : []),
              ...(certificates ? ['--tls-cert', certificates.cert, '--tls-key', certificates.key] : []),
              ...copies.flatMap(copy => ['--plugin', copy]),
            ],
      cleanUps: [
        async () => etcd?.stop(),
        () => users.remove(),
        ...[folder, certificates?.folder, ...copies].map(
          path => async () => (path === undefined ? undefined : rm(path, { recursive: true, force: true })),
        ),
      ],
    })
    try {
      await target.#start()
    } catch (error) {
      await target[Symbol.asyncDispose]()
      throw error
    }
    return target
  }

  get url(): string {
    return `${this.setup.scheme}://127.0.0.1:${this.port}`
  }

  get isUp(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Resolves when the process has ended, with its exit code or signal and the end of its log. */
  get ended(): Promise<string> {
    const child = this.#child
    return this.#closed.then(() => `${child?.exitCode ?? child?.signalCode}: ${this.#stderr.slice(-600)}`)
  }

  /** The end of the log; empty if standard error is unread. */
  get log(): string {
    return this.#stderr
  }

  /** Kills the process and starts it over the same data. @returns the milliseconds until it serves objects */
  async restart(): Promise<number> {
    await this.#kill()
    const began = performance.now()
    await this.#start()
    return performance.now() - began
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kill()
    await Promise.all(this.#cleanUps.map(cleanUp => cleanUp()))
  }

  async #start(): Promise<void> {
    const { heapMiB, descriptors } = targetLimits
    const child = spawn(
      'sh',
      [
        ...['-c', `umask 022; ulimit -n ${descriptors}; exec "$@"`, 'sh'],
        ...[process.execPath, `--max-old-space-size=${heapMiB}`, ...this.#command],
      ],
      {
        cwd: this.#folder,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: Object.fromEntries(
          Object.entries(process.env).filter(([name]) => !name.startsWith('SETPOINT_')),
        ),
      },
    )
    this.#child = child
    killAtExit(child)
    this.#closed = once(child, 'exit')
    if (this.setup.stderr === 'read')
      child.stderr.on('data', (part: Buffer) => {
        this.#stderr = (this.#stderr + part).slice(-64_000)
      })
    const listening = new Promise<void>(resolve => {
      let said = ''
      child.stdout.on('data', (part: Buffer) => {
        said += part
        if (said.includes('setpoint listening on ')) resolve()
      })
    })
    const failed = this.ended.then(why => {
      throw new Error(`the server ended before it served objects: ${why}`)
    })
    failed.catch(() => {})
    const timer = setTimeout(() => child.kill('SIGKILL'), targetLimits.startMs)
    const served = listening.then(() => this.#served(child))
    await Promise.race([served, failed]).finally(() => clearTimeout(timer))
  }

  /** Waits until the kinds of the plugins are served: the program listens before that if it takes long. */
  async #served(child: ChildProcess): Promise<void> {
    const list = { path: `${neighbourhood.collection}?size=1`, as: 'neighbour' as const }
    while (child.exitCode === null && child.signalCode === null) {
      if ((await call(this, list)).status === 200) return
      await sleep(50)
    }
  }

  async #kill(): Promise<void> {
    if (!this.isUp) return
    this.#child?.kill('SIGKILL')
    await this.#closed
  }
}
