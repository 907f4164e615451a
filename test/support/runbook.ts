import { execFile } from 'node:child_process'
import { chown, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { blocksOf, type DocBlock } from './doc-blocks.ts'
import { findKubectl } from './kubectl.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

interface Surroundings {
  /** The server that `kubectl` talks to, and more of its flags. */
  readonly url: string
  readonly flags?: readonly string[]
  /** The folder that the commands run in. Default a new one. */
  readonly cwd?: string
  /** Texts of the page, and what they are here: names of objects, addresses, folders. */
  readonly here?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  /** Shell functions for commands that only another machine has, such as `systemctl`. */
  readonly functions?: string
  /** Folders of further programs. */
  readonly path?: readonly string[]
}

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A runbook whose commands a test runs as they are written, each block by its mark. */
export class Runbook {
  readonly #page: string
  readonly #blocks: readonly DocBlock[]
  readonly #around: Surroundings
  readonly #folder: string
  readonly #left: Set<string>

  private constructor(page: string, blocks: readonly DocBlock[], around: Surroundings, folder: string) {
    this.#page = page
    this.#blocks = blocks
    this.#around = around
    this.#folder = folder
    this.#left = new Set(blocks.map(({ marks }) => marks[0] ?? ''))
  }

  /** @param name of a page in docs/operations/runbooks @throws Error if a block to run has no mark */
  static async open(name: string, around: Surroundings): Promise<Runbook> {
    const page = `docs/operations/runbooks/${name}.md`
    const all = blocksOf(page, await readFile(join(root, page), 'utf8'))
    const blocks = all.filter(({ language }) => language === 'sh')
    const unmarked = blocks.find(({ marks }) => marks.length !== 1)
    if (unmarked !== undefined) throw new Error(`${page}:${unmarked.line}: the block has no mark`)
    return new Runbook(page, blocks, around, await mkdtemp(join(tmpdir(), 'setpoint-runbook-')))
  }

  /** Runs the block with this mark in bash, and stops at its first failure. @throws Error if it fails */
  async run(mark: string): Promise<string> {
    const { code, stdout, stderr } = await this.try(mark)
    if (code !== 0) throw new Error(`${this.#page}, ${mark}: ${stderr}${stdout}`)
    return stdout
  }

  /** As `run`, but also resolves if the block fails. */
  async try(mark: string): Promise<Outcome> {
    const block = this.#blocks.find(({ marks }) => marks[0] === mark)
    if (block === undefined) throw new Error(`${this.#page} has no block ${mark}`)
    this.#left.delete(mark)
    const { url, flags = [], here = {}, env = {}, functions = '', path = [] } = this.#around
    const text = Object.entries(here).reduce((all, [there, own]) => all.replaceAll(there, own), block.text)
    const kubectl = `kubectl() { command kubectl --server '${url}' ${flags.join(' ')} "$@"; }`
    const programs = [join(root, 'node_modules/.bin'), dirname(await findKubectl()), ...path]
    return new Promise(resolve => {
      execFile(
        'bash',
        ['-c', `set -euo pipefail\n${kubectl}\n${functions}\n${text}`],
        {
          cwd: this.#around.cwd ?? this.#folder,
          env: {
            ...process.env,
            PATH: [...programs, process.env.PATH].join(delimiter),
            HOME: this.#folder,
            ...env,
          },
          timeout: 120_000,
          maxBuffer: 64 * 2 ** 20,
        },
        (error, stdout, stderr) => {
          const code = typeof error?.code === 'number' ? error.code : 1
          resolve({ code: error === null ? 0 : code, stdout, stderr })
        },
      )
    })
  }

  /** Removes the folder in which the commands ran. @throws Error if a block was not run */
  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
    if (this.#left.size > 0) throw new Error(`${this.#page} was not walked to its end: ${[...this.#left]}`)
  }
}

/**
 * Gives files to another user, as the files of a service are, if the tests run as root. Returns the uid of their owner.
 */
export async function giveAway(...paths: readonly string[]): Promise<number | undefined> {
  const self = process.getuid?.()
  if (self !== 0) return self
  const nobody = 65_534
  for (const path of paths) await chown(path, nobody, nobody)
  return nobody
}
