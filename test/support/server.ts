import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { killAtExit } from './kill-at-exit.js'
import { freePort } from './ports.ts'
import { type HostedServer, serverHost } from './server-host.ts'

/** Runs the built program as a child process, as users do. */

export const builtProgram = fileURLToPath(new URL('../../node_modules/.bin/setpoint', import.meta.url))

/**
 * Tests that wait for the end of a lease wait for a third of the default. Much shorter ones end by themselves on a busy
 * machine.
 */
const leaseSeconds = '5'

export interface ServerOptions {
  /** Default embedded. */
  readonly store?: 'embedded' | 'etcd'
  /** The embedded store's folder. Default a new one that `stop` removes. */
  readonly dataDir?: string
  /** Required for the etcd store. */
  readonly etcd?: { readonly endpoint: string }
  /** Key prefix in etcd. Servers with the same prefix form one control plane. */
  readonly etcdPrefix?: string
  /** Plugin folders. Default no plugins. */
  readonly plugins?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** More flags, after the others. */
  readonly args?: readonly string[]
  /** Path of the program. Default the built one of this checkout. */
  readonly program?: string
}

export interface RunningServer {
  /** The URL in the listening line. */
  readonly url: string
  readonly port: number
  /** Stops it as SIGTERM does, and waits for the end. */
  end(): Promise<Exit>
  /** Ends it if it runs, and removes the data unless `dataDir` was given. Idempotent. */
  stop(): Promise<Exit>
  /** Ends it if it runs, and starts it on the same data and port. A process is killed. */
  restart(changes?: Pick<ServerOptions, 'plugins'>): Promise<void>
  stdout(): string
  stderr(): string
}

/** A server in a process of its own. */
export interface ServerProcess extends RunningServer {
  readonly pid: number
  /** Sends the signal and waits for the exit. Default SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<Exit>
  restart(changes?: Pick<ServerOptions, 'plugins' | 'program'>): Promise<void>
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Starts `setpoint serve` and waits for its listening line. @throws Error with its log if it exits first */
export async function startServer(options: ServerOptions = {}): Promise<ServerProcess> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'setpoint-data-')))
  const server = new Server(options, dataDir)
  await server.start()
  return server
}

/**
 * Starts a server in a process that it shares with other servers of this test process, for a twentieth of the processor
 * time of a process of its own. For tests that need none: that neither kill it nor ask how the program starts, ends and
 * fails.
 */
export async function startSharedServer(
  options: Omit<ServerOptions, 'program'> = {},
): Promise<RunningServer> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'setpoint-data-')))
  const server = new SharedServer(options, dataDir, await freePort())
  await server.start()
  return server
}

/**
 * Runs the program until it exits by itself. @param options `input` is its standard input, which is empty by default
 */
export async function runProgram(
  args: readonly string[],
  { input, ...options }: { env?: Readonly<Record<string, string>>; cwd?: string; input?: string } = {},
): Promise<Exit> {
  const running = new Running(args, { ...options, hasInput: input !== undefined })
  running.child.stdin?.end(input)
  const timer = setTimeout(() => running.child.kill('SIGKILL'), 240_000)
  try {
    return await running.ended
  } finally {
    clearTimeout(timer)
  }
}

/** Starts the program without waiting, for `--role controllers`, which does not listen. */
export function spawnProgram(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string>>; cwd?: string; program?: string } = {},
): Running {
  return new Running(args, options)
}

function environmentOf(env: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  // Node parses NODE_EXTRA_CA_CERTS at every start, for a quarter of the instructions of the server's start.
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('SETPOINT_') && name !== 'NODE_EXTRA_CA_CERTS',
  )
  return { ...Object.fromEntries(inherited), SETPOINT_LEASE_DURATION: leaseSeconds, ...env }
}

/** A running program and its output. */
export class Running {
  readonly child: ChildProcess
  readonly ended: Promise<Exit>
  stdout = ''
  stderr = ''

  constructor(
    args: readonly string[],
    {
      env,
      cwd,
      program = builtProgram,
      hasInput = false,
    }: { env?: Readonly<Record<string, string>>; cwd?: string; program?: string; hasInput?: boolean },
  ) {
    const child = spawn(program, [...args], {
      stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      env: environmentOf(env),
      ...(cwd !== undefined && { cwd }),
    })
    this.child = child
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    killAtExit(child)
    this.ended = once(child, 'close').then(() => {
      return { code: child.exitCode, signal: child.signalCode, stdout: this.stdout, stderr: this.stderr }
    })
  }

  /** Resolves with the first match in the output. @throws Error if the program exits first */
  async says(pattern: RegExp, stream: 'stdout' | 'stderr' = 'stdout'): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this[stream])
      if (match) return match
      const more = this.child[stream]
      const ended = await Promise.race([
        more === null ? this.ended : once(more, 'data').then(() => undefined),
        this.ended,
      ])
      if (ended !== undefined && !pattern.test(this[stream])) {
        throw new Error(
          `the program exited (${ended.code ?? ended.signal}) without printing ${pattern}:\n${ended.stderr.slice(-4_000)}`,
        )
      }
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    this.child.kill(signal)
    return this.ended
  }
}

/** The program waits this long for its plugins before it prints the listening line. */
const announceMs = 10_000

/** After a slow start, waits until all plugins are loaded and none is starting, or the store is unavailable. */
async function pluginsOf(url: string, { plugins = [] }: ServerOptions, begunAt: number): Promise<void> {
  if (performance.now() - begunAt < announceMs) return
  const count = Math.max(1, plugins.length)
  const deadline = performance.now() + 12 * announceMs
  while (performance.now() < deadline) {
    const report = await reportOf(url)
    const plugins = report.match(/^\[\+\]plugin\/.*/gm) ?? []
    const isStarting = plugins.some(each => /^\S+ starting/.test(each))
    if ((plugins.length >= count && !isStarting) || report.includes('[-]store')) return
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}

/** Returns the response of `/readyz?verbose`. The tests that use TLS check the certificate. */
async function reportOf(url: string): Promise<string> {
  const address = `${url}/readyz?verbose`
  const asked = url.startsWith('https:')
    ? https.get(address, { agent: false, rejectUnauthorized: false })
    : http.get(address, { agent: false })
  const [response] = await once(asked, 'response')
  return text(response)
}

function argumentsOf(
  { store = 'embedded', etcd, etcdPrefix, plugins = [], args = [] }: ServerOptions,
  port: number,
  dataDir: string,
): string[] {
  if (store === 'etcd' && etcd === undefined) throw new Error('the etcd store needs `etcd`')
  return [
    ...['serve', '--listen', `127.0.0.1:${port}`, '--data-dir', dataDir],
    ...(store === 'etcd' ? ['--etcd-endpoints', etcd?.endpoint ?? ''] : []),
    ...(etcdPrefix === undefined ? [] : ['--etcd-prefix', etcdPrefix]),
    ...(plugins.length === 0 ? ['--plugin', noPlugin] : plugins.flatMap(dir => ['--plugin', dir])),
    ...args,
  ]
}

class SharedServer implements RunningServer {
  readonly port: number
  readonly #dataDir: string
  #options: ServerOptions
  #hosted: HostedServer | undefined
  #stderrBefore = ''

  constructor(options: ServerOptions, dataDir: string, port: number) {
    this.#options = options
    this.#dataDir = dataDir
    this.port = port
  }

  async start(): Promise<void> {
    const args = argumentsOf(this.#options, this.port, this.#dataDir)
    const begunAt = performance.now()
    this.#hosted = await serverHost().start(args, environmentOf(this.#options.env))
    await pluginsOf(this.url, this.#options, begunAt)
  }

  get url(): string {
    return this.#hosted?.url ?? ''
  }

  async end(): Promise<Exit> {
    if (this.#hosted === undefined) throw new Error('the server was never started')
    return this.#hosted.stop()
  }

  async stop(): Promise<Exit> {
    const exit = await this.end()
    if (this.#options.dataDir === undefined) await rm(this.#dataDir, { recursive: true, force: true })
    return exit
  }

  async restart(changes: Pick<ServerOptions, 'plugins'> = {}): Promise<void> {
    this.#stderrBefore += (await this.end()).stderr
    this.#options = { ...this.#options, ...changes }
    await this.start()
  }

  stdout(): string {
    return this.#hosted?.stdout ?? ''
  }

  stderr(): string {
    return this.#stderrBefore + (this.#hosted?.stderr ?? '')
  }
}

class Server implements ServerProcess {
  url = ''
  port = 0
  readonly #dataDir: string
  #options: ServerOptions
  #running: Running | undefined
  #exit: Exit | undefined
  #stderrBefore = ''

  constructor(options: ServerOptions, dataDir: string) {
    this.#options = options
    this.#dataDir = dataDir
  }

  async start(): Promise<void> {
    const { env = {}, program } = this.#options
    if (this.port === 0) this.port = await freePort()
    const running = new Running(argumentsOf(this.#options, this.port, this.#dataDir), {
      env,
      cwd: this.#dataDir,
      ...(program !== undefined && { program }),
    })
    this.#running = running
    this.#exit = undefined
    const begunAt = performance.now()
    const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
    this.url = url
    await pluginsOf(url, this.#options, begunAt)
  }

  get pid(): number {
    const pid = this.#running?.child.pid
    if (pid === undefined) throw new Error('the server is not running')
    return pid
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    if (this.#exit !== undefined) return this.#exit
    if (this.#running === undefined) throw new Error('the server was never started')
    this.#exit = await this.#running.kill(signal)
    this.#stderrBefore += this.#exit.stderr
    return this.#exit
  }

  end(): Promise<Exit> {
    return this.kill('SIGTERM')
  }

  async stop(): Promise<Exit> {
    const exit = await this.end()
    if (this.#options.dataDir === undefined) await rm(this.#dataDir, { recursive: true, force: true })
    return exit
  }

  async restart(changes: Pick<ServerOptions, 'plugins' | 'program'> = {}): Promise<void> {
    await this.kill()
    this.#options = { ...this.#options, ...changes }
    await this.start()
  }

  stdout(): string {
    return this.#running?.stdout ?? ''
  }

  stderr(): string {
    return this.#exit === undefined ? this.#stderrBefore + (this.#running?.stderr ?? '') : this.#stderrBefore
  }
}

/** Without --plugin the program loads the plugins that ship with it. This one is empty. */
const noPlugin = fileURLToPath(new URL('../fixtures/empty-plugin', import.meta.url))
