import { describe, expect, it } from 'vitest'
import { dropOne, type Plant } from './plant.ts'

const frame = (type: string, version: number) =>
  JSON.stringify({ type, object: { metadata: { name: 'a', version: String(version) } } })
const expired = JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410 } })

/** Sends events that follow the initial ones. Returns the versions that the watcher receives. */
function pass({ tamper, received }: Plant, frames: readonly string[]): unknown[] {
  return frames
    .flatMap(each => tamper(each, 100))
    .map(each => {
      received(each)
      return JSON.parse(each).object.metadata?.version
    })
}

describe('the planted fault', () => {
  it('drops one change each time that it is sent', () => {
    const plant = dropOne()
    const frames = [frame('ADDED', 3), frame('BOOKMARK', 4), frame('MODIFIED', 5), frame('DELETED', 6)]
    expect(pass(plant, [...frames, ...frames])).toEqual(['3', '4', '6', '3', '4', '6'])
    expect(plant.version).toBe(5)
  })

  it('drops another change if the watcher relists before it could miss the first', () => {
    const plant = dropOne()
    pass(plant, [frame('MODIFIED', 5), expired])
    expect(pass(plant, [frame('ADDED', 5), frame('MODIFIED', 7), frame('MODIFIED', 8), expired])).toEqual([
      '5',
      '8',
      undefined,
    ])
    expect(pass(plant, [frame('MODIFIED', 9)])).toEqual(['9'])
    expect(plant.version).toBe(7)
  })

  it('drops another change if later ones were lost with their connection before the watcher relists', () => {
    const plant = dropOne()
    for (const lost of [frame('MODIFIED', 5), frame('MODIFIED', 6)]) plant.tamper(lost, 100)
    pass(plant, [expired])
    expect(pass(plant, [frame('ADDED', 6), frame('MODIFIED', 7), frame('MODIFIED', 8)])).toEqual(['6', '8'])
    expect(plant.version).toBe(7)
  })
})
