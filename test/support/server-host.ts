import { type ChildProcess, fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { killAtExit } from './kill-at-exit.js'
import type { Exit } from './server.ts'

/** A server in a shared process. */
export interface HostedServer {
  readonly url: string
  readonly stdout: string
  readonly stderr: string
  /** Idempotent. */
  stop(): Promise<Exit>
}

let host: ServerHost | undefined

/** Returns the process that runs servers of this test process. It starts at the first use, and again after a crash. */
export function serverHost(): ServerHost {
  if (host === undefined || host.hasEnded) host = new ServerHost()
  return host
}

/** The process of `server-host.js`. */
class ServerHost {
  readonly #child: ChildProcess
  readonly #servers = new Map<number, Hosted>()
  #count = 0

  constructor() {
    this.#child = fork(fileURLToPath(new URL('server-host.js', import.meta.url)), [], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    killAtExit(this.#child)
    // Must not keep the test process alive.
    this.#child.unref()
    this.#child.channel?.unref()
    let problems = ''
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      problems = `${problems}${text}`.slice(-4_000)
    })
    this.#child.on('message', ({ id, ...message }: Message) => this.#servers.get(id)?.receive(message))
    this.#child.once('exit', () => {
      for (const server of this.#servers.values()) server.receive({ stderr: problems, exit: 1 })
    })
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** Waits for the listening line. @throws Error with the log if the server does not start */
  async start(args: readonly string[], env: NodeJS.ProcessEnv): Promise<HostedServer> {
    const id = this.#count++
    const server = new Hosted(() => this.#child.send({ id }))
    this.#servers.set(id, server)
    server.ended.then(() => this.#servers.delete(id))
    this.#child.send({ id, start: { args, env } })
    await server.listening()
    return server
  }
}

interface Message {
  readonly id: number
  readonly stdout?: string
  readonly stderr?: string
  readonly exit?: number
}

class Hosted extends EventEmitter implements HostedServer {
  readonly ended: Promise<Exit>
  readonly #stop: () => void
  stdout = ''
  stderr = ''

  constructor(stop: () => void) {
    super()
    this.#stop = stop
    this.ended = once(this, 'exit').then(([code]) => {
      return { code, signal: null, stdout: this.stdout, stderr: this.stderr }
    })
  }

  receive({ stdout = '', stderr = '', exit }: Omit<Message, 'id'>): void {
    this.stdout += stdout
    this.stderr += stderr
    if (stdout !== '') this.emit('line')
    if (exit !== undefined) this.emit('exit', exit)
  }

  async listening(): Promise<void> {
    await Promise.race([once(this, 'line'), this.ended])
    if (this.stdout === '') throw new Error(`the server did not start:\n${this.stderr.slice(-4_000)}`)
  }

  get url(): string {
    return /listening on (\S+)/.exec(this.stdout)?.[1] ?? ''
  }

  stop(): Promise<Exit> {
    this.#stop()
    return this.ended
  }
}
