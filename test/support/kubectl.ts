import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findKubectl } from '../../scripts/kubernetes-tools.mjs'
import { killAtExit } from './kill-at-exit.js'

/** The releases of kubectl that tests use. */
export const kubectlReleases = ['1.34', '1.32'] as const
export type KubectlRelease = (typeof kubectlReleases)[number]

export interface KubectlExit {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs kubectl against a server without a kubeconfig. Returns its standard output. @throws Error if it fails */
export async function kubectl(serverUrl: string, ...args: string[]): Promise<string> {
  const home = await KubectlHome.make(await findKubectl())
  try {
    return await home.run(['--server', serverUrl, ...args])
  } finally {
    await home.remove()
  }
}

/** One release of kubectl with a home of its own, which keeps its cache of discovery. */
export class KubectlHome {
  readonly path: string
  readonly #binary: string

  private constructor(path: string, binary: string) {
    this.path = path
    this.#binary = binary
  }

  static async make(binary: string): Promise<KubectlHome> {
    return new KubectlHome(await mkdtemp(join(tmpdir(), 'setpoint-kubectl-')), binary)
  }

  static async of(release: KubectlRelease): Promise<KubectlHome> {
    return KubectlHome.make(await findKubectl(release))
  }

  /** Starts kubectl. It reads `~/.kube/config` of this home if that exists. */
  start(args: readonly string[], input = '', env: Readonly<Record<string, string>> = {}): RunningKubectl {
    return new RunningKubectl(this.#binary, args, this.path, input, env)
  }

  /** Returns what kubectl prints. @throws Error if it fails */
  async run(args: readonly string[], input = ''): Promise<string> {
    const { code, stdout, stderr } = await this.start(args, input).ended
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')} exits with ${code}: ${stderr}${stdout}`)
    return stdout
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
  }
}

/** A kubectl that may still run, as with `--watch`. */
export class RunningKubectl {
  readonly ended: Promise<KubectlExit>
  stdout = ''
  stderr = ''
  readonly #stop: () => void
  #wake: (() => void)[] = []

  constructor(
    binary: string,
    args: readonly string[],
    home: string,
    input: string,
    env: Readonly<Record<string, string>>,
  ) {
    const all = { HOME: home, PATH: process.env.PATH ?? '', ...env }
    const child = spawn(binary, [...args], { env: all, cwd: home })
    killAtExit(child)
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
      this.#notify()
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    // It may exit before it has read its input.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    this.#stop = () => child.kill('SIGTERM')
    this.ended = new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('close', code => {
        resolve({ code, stdout: this.stdout, stderr: this.stderr })
        this.#notify()
      })
    })
  }

  /** Resolves with the standard output once it matches. @throws Error if kubectl exits first */
  async prints(pattern: RegExp): Promise<string> {
    let exit: KubectlExit | undefined
    void this.ended.then(found => {
      exit = found
    })
    while (!pattern.test(this.stdout)) {
      if (exit !== undefined)
        throw new Error(`kubectl exits with ${exit.code} before ${pattern}: ${this.stderr}`)
      await new Promise<void>(resolve => this.#wake.push(resolve))
    }
    return this.stdout
  }

  async stop(): Promise<KubectlExit> {
    this.#stop()
    return this.ended
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}
