import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** Another script of this folder in a process of its own, which does what a line tells it and answers with a line. */
export class ScriptProcess implements AsyncDisposable {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #waiting: { resolve: (answer: string) => void; reject: (error: Error) => void }[] = []

  /** `nodeOptions` as on the command line. */
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

  /** Answers come in the order of the questions. @throws Error when the process ends before. */
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

/** The other end: does what the lines of the standard input say, one after another, until there are no more. */
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
