import type { SeededRandom } from './world.ts'

/** Returns randomness from a seed (Sfc32): fast, and the same on every machine. */
export function seededRandom(seed: number): SeededRandom {
  return new Sfc32(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0, 0x9e3779b9)
}

class Sfc32 implements SeededRandom {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(a: number, b: number, c: number) {
    this.#a = a
    this.#b = b
    this.#c = c
    // The first numbers of similar seeds are similar.
    for (let n = 0; n < 12; n++) this.#draw()
  }

  next(): number {
    return this.#draw() / 2 ** 32
  }

  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.int(0, items.length - 1)]
    if (item === undefined) throw new RangeError('nothing to pick from')
    return item
  }

  bytes(count: number): Buffer {
    const bytes = Buffer.allocUnsafe(count)
    for (let at = 0; at < count; at++) bytes[at] = this.#draw() & 0xff
    return bytes
  }

  fork(name: string): SeededRandom {
    let hash = 0x811c9dc5
    for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193)
    return new Sfc32(this.#a ^ hash, this.#b, this.#c)
  }

  #draw(): number {
    const sum = (this.#a + this.#b + this.#counter) >>> 0
    this.#counter = (this.#counter + 1) >>> 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) >>> 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) >>> 0
    return sum
  }
}
