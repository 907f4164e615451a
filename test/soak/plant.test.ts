import { describe, expect, it } from 'vitest'
import { dropOne } from './plant.ts'

const frame = (type: string, version: number) =>
  JSON.stringify({ type, object: { metadata: { name: 'a', version: String(version) } } })
const expired = JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410 } })

/** Returns the versions that a watch receives after its initial events. */
function passed(tamper: ReturnType<typeof dropOne>['tamper'], frames: readonly string[]): unknown[] {
  return frames.flatMap(each => tamper(each, 100)).map(each => JSON.parse(each).object.metadata?.version)
}

describe('the planted fault', () => {
  it('drops one change each time that it is sent', () => {
    const plant = dropOne()
    const frames = [frame('ADDED', 3), frame('BOOKMARK', 4), frame('MODIFIED', 5), frame('DELETED', 6)]
    expect(passed(plant.tamper, [...frames, ...frames])).toEqual(['3', '4', '6', '3', '4', '6'])
    expect(plant.version).toBe(5)
  })

  it('drops another change if the watcher relists before it could miss the first', () => {
    const plant = dropOne()
    passed(plant.tamper, [frame('MODIFIED', 5), expired])
    expect(
      passed(plant.tamper, [frame('ADDED', 5), frame('MODIFIED', 7), frame('MODIFIED', 8), expired]),
    ).toEqual(['5', '8', undefined])
    expect(passed(plant.tamper, [frame('MODIFIED', 9)])).toEqual(['9'])
    expect(plant.version).toBe(7)
  })
})
