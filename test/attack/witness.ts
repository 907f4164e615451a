import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { arrayOf, fieldsOf, numberOf, textOf } from '../support/json.ts'
import type { Target } from './target.ts'

/** What the second caller sees in one phase. */
export interface Sight {
  readonly livez: Readings
  readonly get: Readings
  readonly list: Readings
}

export interface Readings {
  readonly count: number
  /** Requests without a response, or with another status than 200. */
  readonly failures: readonly string[]
  readonly p99Ms: number
  readonly maxMs: number
}

/** The collection and the names of the second caller's objects. */
export const neighbourhood = Object.freeze({
  collection: '/apis/items.example.com/v1/items',
  name: 'neighbour-0',
  objects: 20,
  label: 'attack.example.com/neighbour',
})

/** The second caller's process. */
export class Witness implements AsyncDisposable {
  readonly #child: ChildProcess

  constructor() {
    // From the root: the long form runs compiled, in another folder.
    this.#child = fork(fileURLToPath(new URL('../../test/attack/witness.js', import.meta.url)))
  }

  /** Requests without a response after `timeoutMs` count as failed. */
  aim({ url, users }: Target, timeoutMs: number): void {
    const { collection, name, label } = neighbourhood
    const listPath = `${collection}?size=10&labelSelector=${encodeURIComponent(label)}`
    this.#child.send({
      aim: { url, token: users.tokenOf('neighbour'), getPath: `${collection}/${name}`, listPath, timeoutMs },
    })
  }

  /** Watches while the work is done, whether or not it succeeds. */
  async during(work: () => Promise<unknown>): Promise<Sight> {
    this.#child.send({ do: 'begin' })
    const outcome = await work().then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    this.#child.send({ do: 'end' })
    const [message] = await once(this.#child, 'message')
    if (outcome !== undefined) throw outcome.error
    const { livez, get, list } = fieldsOf(message)
    return { livez: readingsOf(livez), get: readingsOf(get), list: readingsOf(list) }
  }

  /** Pauses, and forgets open requests: the server is restarted on purpose. */
  pause(): void {
    this.#child.send({ do: 'pause' })
  }

  resume(): void {
    this.#child.send({ do: 'resume' })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}

function readingsOf(value: unknown): Readings {
  const { ms, failures } = fieldsOf(value)
  const sorted = arrayOf(ms)
    .map(numberOf)
    .sort((a, b) => a - b)
  return {
    count: sorted.length,
    failures: arrayOf(failures).map(textOf),
    p99Ms: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0,
    maxMs: sorted.at(-1) ?? 0,
  }
}
