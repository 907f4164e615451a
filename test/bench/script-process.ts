import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/**
 * Runs another script of this folder in a process of its own. It reads commands from stdin and prints a line for each.
 */
export class ScriptProcess implements AsyncDisposable {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #waiting: { resolve: (answer: string) => void; reject: (error: Error) => void }[] = []

  /** `nodeOptions` go on Node's command line. */
  constructor(script: string, nodeOptions: readonly string[] = []) {
    this.#child = spawn(process.execPath, [...nodeOptions, join(import.meta.dirname, script)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const { pid, stdout } = this.#child
    if (stdout === null || pid === undefined) throw new Error(`${script} cannot be run`)
    this.pid = pid
    createInterface(stdout).on('line', line => this.#waiting.shift()?.resolve(line))
    this.#child.once('exit', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error(`${script} ended`))
    })
  }

  /** Responses come in the order of the commands. @throws Error if the process ends first */
  ask(...words: readonly (string | number)[]): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#child.stdin?.write(`${words.join(' ')}\n`)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.stdin?.end()
    await once(this.#child, 'exit')
  }
}

/** The script's side: runs the commands from standard input, one after another. */
export async function obey(
  commands: Readonly<
    Record<string, (words: readonly string[]) => Promise<string | number> | string | number>
  >,
): Promise<never> {
  for await (const line of createInterface(process.stdin)) {
    const [verb = '', ...words] = line.split(' ')
    const command = commands[verb]
    if (command === undefined) throw new Error(`no such command: ${line}`)
    console.log(await command(words))
  }
  process.exit(0)
}
