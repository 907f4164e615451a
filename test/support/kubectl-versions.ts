import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { findKubectl } from '../../scripts/kubernetes-tools.mjs'

export { kubectlVersions } from '../../scripts/kubernetes-tools.mjs'

export interface KubectlResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** kubectl of one version, with a home folder of its own for its caches. */
export class Kubectl {
  readonly #binary: string
  readonly #home: string
  readonly #flags: readonly string[]

  private constructor(binary: string, home: string, flags: readonly string[]) {
    this.#binary = binary
    this.#home = home
    this.#flags = flags
  }

  /** @param flags precede the arguments of every run, for example `--server URL` */
  static async open(version: string, ...flags: readonly string[]): Promise<Kubectl> {
    return new Kubectl(
      await findKubectl(version),
      await mkdtemp(join(tmpdir(), `setpoint-kubectl-${version}-`)),
      flags,
    )
  }

  /** Runs kubectl to its end, with a standard input and more environment variables. */
  async run(
    args: readonly string[],
    {
      input = '',
      env = {},
    }: { readonly input?: string; readonly env?: Readonly<Record<string, string>> } = {},
  ): Promise<KubectlResult> {
    const child = spawn(this.#binary, [...this.#flags, ...args], {
      // `edit` and `diff` run other programs.
      env: { HOME: this.#home, PATH: process.env.PATH ?? '', ...env },
    })
    child.stdin.on('error', () => {}).end(input)
    const closed = once(child, 'close')
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), closed])
    return { code: child.exitCode, stdout, stderr }
  }

  /** Returns the standard output. @throws Error if kubectl fails */
  async output(...args: Parameters<Kubectl['run']>): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args)
    if (code !== 0) throw new Error(`kubectl ${args[0].join(' ')} exited with ${code}: ${stderr}`)
    return stdout
  }

  async close(): Promise<void> {
    await rm(this.#home, { recursive: true, force: true })
  }
}
