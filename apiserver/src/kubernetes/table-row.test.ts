import { expect, it } from 'vitest'
import { encodeRow, RowCache } from './table-row.ts'

const view = {}

/** A cache, and a way to ask it that returns how many rows have been made. */
function counted(maxBytes?: number) {
  const cache = new RowCache(maxBytes)
  let made = 0
  const ask = (wire: Buffer, of: object = view) => {
    cache.get(of, wire, () => {
      made++
      return encodeRow(['a'], 'null')
    })
    return made
  }
  return ask
}

it('a row is made once for each version of an object and each view', () => {
  const ask = counted()
  const [first, second] = [Buffer.from('{}'), Buffer.from('{}')]
  expect([ask(first), ask(first), ask(second), ask(first), ask(first, {})]).toEqual([1, 1, 2, 2, 3])
})

it('rows past the bound are dropped, those in use last', () => {
  const ask = counted(1_000)
  const wires = Array.from({ length: 8 }, () => Buffer.alloc(200))
  const [used = Buffer.alloc(0), dropped = Buffer.alloc(0), ...others] = wires
  ask(used)
  ask(dropped)
  for (const wire of others) {
    ask(wire)
    ask(used)
  }
  const made = ask(used)
  expect(made).toBe(8)
  expect(ask(dropped)).toBe(9)
})
