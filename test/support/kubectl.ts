import { spawn } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findKubectl, kubectlVersions } from '../../scripts/kubernetes-tools.mjs'
import { killAtExit } from './kill-at-exit.js'
import { need } from './tools.ts'

await need(() => Promise.all([undefined, ...kubectlVersions].map(findKubectl)))

export { findKubectl, kubectlVersions } from '../../scripts/kubernetes-tools.mjs'

export interface KubectlExit {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface KubectlOptions {
  /** The standard input. */
  readonly input?: string
  /** More environment variables. */
  readonly env?: Readonly<Record<string, string>>
}

/**
 * kubectl with a home folder of its own. It keeps its cache of discovery there, and reads `.kube/config` if that
 * exists.
 */
export class Kubectl {
  readonly home: string
  readonly #binary: string
  readonly #flags: readonly string[]

  private constructor(home: string, binary: string, flags: readonly string[]) {
    this.home = home
    this.#binary = binary
    this.#flags = flags
  }

  /**
   * @param version one of `kubectlVersions`; any version without
   * @param flags precede the arguments of every run, for example `--server URL`
   */
  static async open(version?: string, ...flags: readonly string[]): Promise<Kubectl> {
    const binary = await findKubectl(version)
    return new Kubectl(await mkdtemp(join(tmpdir(), 'setpoint-kubectl-')), binary, flags)
  }

  /** Opens kubectl with a copy of a kubeconfig, which it may change. */
  static async configured(version: string, kubeconfig: string): Promise<Kubectl> {
    const kubectl = await Kubectl.open(version)
    await mkdir(join(kubectl.home, '.kube'))
    await copyFile(kubeconfig, join(kubectl.home, '.kube', 'config'))
    return kubectl
  }

  start(args: readonly string[], options: KubectlOptions = {}): RunningKubectl {
    return new RunningKubectl(this.#binary, [...this.#flags, ...args], this.home, options)
  }

  /** Runs kubectl to its end. */
  run(args: readonly string[], options?: KubectlOptions): Promise<KubectlExit> {
    return this.start(args, options).ended
  }

  /** Returns the standard output. @throws Error if kubectl fails */
  async output(args: readonly string[], options?: KubectlOptions): Promise<string> {
    const { code, stdout, stderr } = await this.run(args, options)
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')} exits with ${code}: ${stderr}${stdout}`)
    return stdout
  }

  async close(): Promise<void> {
    await rm(this.home, { recursive: true, force: true })
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
    { input = '', env = {} }: KubectlOptions,
  ) {
    // `edit` and `diff` run other programs.
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
