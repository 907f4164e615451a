import { type Signal, signal } from '@preact/signals'
import { get } from '../api/http.ts'
import { fieldsOf, textOf } from '../api/json.ts'
import { socket } from '../api/socket.ts'
import { oncePerFrame } from './frames.ts'

/** Kinds that are counted. A server may have hundreds. */
const countedKinds = 100
/** Milliseconds until a kind that changes all the time is counted again. */
const busyMs = 10_000

/** How many objects each listed kind has, live: read once, and then followed by a watch that only counts. */
export class Counts {
  readonly #counts = new Map<string, Signal<number | undefined>>()
  #ends: (() => void)[] = []
  #isClosed = false

  of(path: string): Signal<number | undefined> {
    const found = this.#counts.get(path) ?? signal(undefined)
    this.#counts.set(path, found)
    return found
  }

  /** Counts these collections, four at a time. */
  async follow(paths: readonly string[]): Promise<void> {
    const waiting = paths.slice(0, countedKinds)
    const work = async () => {
      for (let path = waiting.shift(); path !== undefined && !this.#isClosed; path = waiting.shift())
        await this.#count(path).catch(() => {})
    }
    await Promise.all([work(), work(), work(), work()])
  }

  close(): void {
    this.#isClosed = true
    for (const end of this.#ends) end()
  }

  async #count(path: string): Promise<void> {
    const { total, metadata } = await get(`${path}?size=1`)
    if (typeof total !== 'number' || this.#isClosed) return
    const count = this.of(path)
    let current = total
    count.value = current
    const draw = oncePerFrame(() => {
      count.value = current
    })
    const end = socket.subscribe({
      path,
      version: textOf(fieldsOf(metadata).version),
      isCounting: true,
      event(type) {
        current += type === 'ADDED' ? 1 : -1
        draw()
      },
      expired: () => void this.#count(path).catch(() => {}),
      busy: () => {
        end()
        setTimeout(() => void this.#count(path).catch(() => {}), busyMs)
      },
    })
    this.#ends.push(end)
  }
}
