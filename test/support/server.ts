import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from './ports.ts'

/** The built program as its users run it: a child process of which only the sockets, the output and the exit are known. */

const builtProgram = fileURLToPath(new URL('../../node_modules/.bin/setpoint', import.meta.url))

export interface ServerOptions {
  /** Default embedded. */
  readonly store?: 'embedded' | 'etcd'
  /** Of the embedded store; by default a fresh folder that `stop` removes. */
  readonly dataDir?: string
  /** Where etcd is; needed for that store. */
  readonly etcd?: { readonly endpoint: string }
  /** Under which key prefix in etcd; servers that share it are servers of one control plane. */
  readonly etcdPrefix?: string
  /** Plugin folders. Default none at all. */
  readonly plugins?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** More flags, after the others. */
  readonly args?: readonly string[]
}

export interface ServerProcess {
  /** As the listening line has it. */
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Sends the signal and waits for the end. */
  kill(signal?: NodeJS.Signals): Promise<Exit>
  /** SIGTERM, the end, and the removal of what it stored unless that was given. Idempotent. */
  stop(): Promise<Exit>
  /** Starts it again over the same data and on the same port, after SIGKILL where it still runs. */
  restart(changes?: { plugins?: readonly string[] }): Promise<void>
  stdout(): string
  stderr(): string
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Starts `setpoint serve` and waits for its listening line. @throws Error with its log when it ends before */
export async function startServer(options: ServerOptions = {}): Promise<ServerProcess> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'setpoint-data-')))
  const server = new Server(options, dataDir)
  await server.start()
  return server
}

/** Runs the program to its end. For what is expected to end by itself. */
export async function runProgram(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string>>; cwd?: string } = {},
): Promise<Exit> {
  const running = new Running(args, options)
  const timer = setTimeout(() => running.child.kill('SIGKILL'), 240_000)
  try {
    return await running.ended
  } finally {
    clearTimeout(timer)
  }
}

/** Starts the program and leaves it running: for `--role controllers`, which does not listen. */
export function spawnProgram(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string>>; cwd?: string } = {},
): Running {
  return new Running(args, options)
}

/** A running program with what it has written so far. */
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
    }: { env?: Readonly<Record<string, string>>; cwd?: string; program?: string },
  ) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('SETPOINT_'))
    const child = spawn(program, [...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...Object.fromEntries(inherited), ...env },
      ...(cwd !== undefined && { cwd }),
    })
    this.child = child
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    // A test that is cut short must not leave programs behind.
    const endWithUs = () => child.kill('SIGKILL')
    process.once('exit', endWithUs)
    this.ended = once(child, 'close').then(() => {
      process.off('exit', endWithUs)
      return { code: child.exitCode, signal: child.signalCode, stdout: this.stdout, stderr: this.stderr }
    })
  }

  /** Resolves with the match once the output has it. @throws Error when the program ends before */
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
          `the program ended (${ended.code ?? ended.signal}) without saying ${pattern}:\n${ended.stderr.slice(-4_000)}`,
        )
      }
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    this.child.kill(signal)
    return this.ended
  }
}

/** So long the program waits for its plugins before it says that it listens: on a busy machine they may take longer. */
const announceMs = 10_000

/** Waits until plugins have started, or cannot because the store is away. */
async function pluginsOf(url: string): Promise<void> {
  const deadline = performance.now() + 12 * announceMs
  while (performance.now() < deadline) {
    const text = await fetch(`${url}/readyz?verbose`).then(answer => answer.text())
    if (!/plugin\/\S+ starting/.test(text) || text.includes('[-]store')) return
    await new Promise(resolve => setTimeout(resolve, 100))
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
    const { store = 'embedded', etcd, etcdPrefix, plugins = [], env = {}, args = [] } = this.#options
    if (store === 'etcd' && etcd === undefined) throw new Error('where is etcd?')
    if (this.port === 0) this.port = await freePort()
    const running = new Running(
      [
        ...['serve', '--listen', `127.0.0.1:${this.port}`, '--data-dir', this.#dataDir],
        ...(store === 'etcd' ? ['--etcd-endpoints', etcd?.endpoint ?? ''] : []),
        ...(etcdPrefix === undefined ? [] : ['--etcd-prefix', etcdPrefix]),
        ...(plugins.length === 0 ? ['--plugin', noPlugin] : plugins.flatMap(dir => ['--plugin', dir])),
        ...args,
      ],
      { env, cwd: this.#dataDir },
    )
    this.#running = running
    this.#exit = undefined
    const begunAt = performance.now()
    const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
    this.url = url
    if (performance.now() - begunAt >= announceMs && url.startsWith('http:')) await pluginsOf(url)
  }

  get pid(): number {
    const pid = this.#running?.child.pid
    if (pid === undefined) throw new Error('this server does not run')
    return pid
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    if (this.#exit !== undefined) return this.#exit
    if (this.#running === undefined) throw new Error('this server was never started')
    this.#exit = await this.#running.kill(signal)
    this.#stderrBefore += this.#exit.stderr
    return this.#exit
  }

  async stop(): Promise<Exit> {
    const exit = await this.kill('SIGTERM')
    if (this.#options.dataDir === undefined) await rm(this.#dataDir, { recursive: true, force: true })
    return exit
  }

  async restart(changes: { plugins?: readonly string[] } = {}): Promise<void> {
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

/** Without --plugin the program loads what ships with it. This one has nothing. */
const noPlugin = fileURLToPath(new URL('../fixtures/empty-plugin', import.meta.url))
