import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findEtcd } from '../../scripts/etcd.mjs'
import { fieldsOf } from './json.ts'
import { killAtExit } from './kill-at-exit.js'
import { freePorts } from './ports.ts'
import { suspend } from './suspend.ts'
import { need } from './tools.ts'

await need(findEtcd)

/** Real etcd servers on free loopback ports, single or as a cluster, that tests can kill, pause and restart. */

/** The deadline of calls to etcd where a busy machine must not cause an unavailable store, ms. */
export const patientMs = 60_000

export interface EtcdOptions {
  /** Kept by `stop`. Default a new folder that `stop` removes. */
  readonly dataDir?: string
  /** The client port. Default a free one. */
  readonly port?: number
  /** Skips fsync: faster. Data survives a killed process, but not a crashed machine. */
  readonly unsafeNoFsync?: boolean
  /** Path of the server. Default the result of `findEtcd`. */
  readonly binary?: string
  /** More flags, as on the command line. */
  readonly flags?: readonly string[]
  /** Serves TLS and requires client certificates. Paths of PEM files. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string }
}

export interface EtcdProcess {
  /** `http(s)://127.0.0.1:<port>`; does not change on a restart. */
  readonly endpoint: string
  readonly port: number
  readonly pid: number
  /** Sends the signal and waits for the exit. Default SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Kills it if it runs, and starts it on the same data. Resolves when it serves. */
  restart(): Promise<void>
  /** Suspends the process: connections stay open, but it does not respond. */
  pause(): Promise<void>
  resume(): void
  /** Kills it and removes its data, unless `dataDir` was given. Idempotent. */
  stop(): Promise<void>
}

/** Starts one etcd and waits until it serves. @throws Error if etcd is missing or fails to start */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdProcess> {
  const [port, peerPort] = await freePorts(2)
  const member = await Member.create('default', options.port ?? port, peerPort, options)
  await member.start(`default=http://127.0.0.1:${peerPort}`)
  await member.serves()
  return member
}

/** Starts the members of one cluster and waits until all serve. */
export async function startEtcdCluster(
  size: number,
  options: Omit<EtcdOptions, 'dataDir' | 'port'> = {},
): Promise<EtcdProcess[]> {
  const ports = await freePorts(2 * size)
  const members = await Promise.all(
    Array.from({ length: size }, (_, i) => Member.create(`m${i}`, ports[2 * i], ports[2 * i + 1], options)),
  )
  const cluster = members.map(member => `${member.name}=http://127.0.0.1:${member.peerPort}`).join(',')
  await Promise.all(members.map(member => member.start(cluster)))
  await Promise.all(members.map(member => member.serves()))
  return members
}

/** Resolves with the leader when a member reports that it leads. */
export async function leaderOf(members: readonly EtcdProcess[]): Promise<EtcdProcess> {
  for (;;) {
    const leads = await Promise.all(members.map(isLeader))
    const leader = members.find((_, n) => leads[n])
    if (leader !== undefined) return leader
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

async function isLeader({ endpoint }: EtcdProcess): Promise<boolean> {
  try {
    const asked = { method: 'POST', body: '{}', signal: AbortSignal.timeout(5_000) }
    const response = await fetch(`${endpoint}/v3/maintenance/status`, asked)
    const { leader, header } = fieldsOf(await response.json())
    return leader !== undefined && leader === fieldsOf(header).member_id
  } catch {
    return false
  }
}

class Member implements EtcdProcess {
  readonly name: string
  readonly port: number
  readonly peerPort: number
  readonly endpoint: string
  readonly #binary: string
  readonly #options: EtcdOptions
  readonly #dataDir: string
  #cluster = ''
  #child: ChildProcess | undefined
  #exited: Promise<unknown> = Promise.resolve()
  #output = ''

  private constructor(
    name: string,
    port: number,
    peerPort: number,
    binary: string,
    dataDir: string,
    o: EtcdOptions,
  ) {
    this.name = name
    this.port = port
    this.peerPort = peerPort
    this.endpoint = `${o.tls ? 'https' : 'http'}://127.0.0.1:${port}`
    this.#binary = binary
    this.#dataDir = dataDir
    this.#options = o
  }

  static async create(
    name: string,
    port: number | undefined,
    peerPort: number | undefined,
    options: EtcdOptions,
  ): Promise<Member> {
    if (port === undefined || peerPort === undefined) throw new Error('no free port')
    const binary = options.binary ?? (await findEtcd())
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'setpoint-etcd-')))
    return new Member(name, port, peerPort, binary, dataDir, options)
  }

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error('etcd is not running')
    return this.#child.pid
  }

  async start(cluster: string): Promise<void> {
    this.#cluster = cluster
    const { tls, unsafeNoFsync = false, flags = [] } = this.#options
    const peer = `http://127.0.0.1:${this.peerPort}`
    const child = spawn(
      this.#binary,
      [
        ...['--name', this.name, '--data-dir', this.#dataDir, '--log-level', 'warn'],
        ...['--listen-client-urls', this.endpoint, '--advertise-client-urls', this.endpoint],
        ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
        ...['--initial-cluster', cluster, '--initial-cluster-token', `setpoint-${cluster}`],
        ...(unsafeNoFsync ? ['--unsafe-no-fsync'] : []),
        ...(tls ? ['--cert-file', tls.cert, '--key-file', tls.key] : []),
        ...(tls ? ['--trusted-ca-file', tls.ca, '--client-cert-auth'] : []),
        ...flags,
      ],
      // etcd reads ETCD_* as flags, but ETCD_BIN is not one of them.
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_'))),
      },
    )
    this.#child = child
    this.#output = ''
    const keep = (chunk: Buffer) => {
      this.#output = (this.#output + chunk).slice(-4_000)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    this.#exited = once(child, 'exit')
    killAtExit(child)
    await once(child, 'spawn')
  }

  /** Waits until it is healthy. It accepts connections well before it has a leader. */
  async serves(): Promise<void> {
    const deadline = performance.now() + 120_000
    while (!(await this.#isHealthy())) {
      if (this.#child?.exitCode !== null || performance.now() > deadline)
        throw new Error(`etcd failed to start:\n${this.#output}`)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }

  async #isHealthy(): Promise<boolean> {
    const { tls } = this.#options
    const files = tls && (await Promise.all([tls.ca, tls.cert, tls.key].map(path => readFile(path))))
    return new Promise(resolve => {
      const url = `${this.endpoint}/health`
      const options = { timeout: 5_000, agent: false }
      const asked = files
        ? https.get(url, { ...options, ca: files[0], cert: files[1], key: files[2] })
        : http.get(url, options)
      asked.once('timeout', () => asked.destroy())
      asked.once('error', () => resolve(false))
      asked.once('response', response => {
        response.resume()
        resolve(response.statusCode === 200)
      })
    })
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#child?.kill(signal)
    await this.#exited
  }

  async restart(): Promise<void> {
    await this.kill()
    await this.start(this.#cluster)
    await this.serves()
  }

  async pause(): Promise<void> {
    await suspend(this.pid)
  }

  resume(): void {
    this.#child?.kill('SIGCONT')
  }

  async stop(): Promise<void> {
    await this.kill()
    if (this.#options.dataDir === undefined) await rm(this.#dataDir, { recursive: true, force: true })
  }
}
