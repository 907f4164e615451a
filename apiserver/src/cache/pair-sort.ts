import type { Yielder } from '@setpoint/controller-runtime/internal'
import { compareCodePoints, compareUnits, ordersByUnit } from '../model/index.ts'
import { finishYielding } from '../scheduling/index.ts'
import { mergeRuns } from './run-merge.ts'

const steps = Object.freeze({
  /** Texts sorted in one step, which takes some tens of milliseconds. */
  run: 16_384,
  /** Short steps between two checks of the clock. */
  between: 4096,
})

/** Pairs (value, object) in two arrays of equal length. */
export interface Pairs<T> {
  readonly values: readonly (string | undefined)[]
  readonly objects: readonly T[]
}

/**
 * Sorts pairs into the order of an index tree: by value, pairs without a value last. The sort is stable, so objects in
 * the order of their names need no comparison of names.
 *
 * It is a counting sort that compares only distinct values, since most indexes have few of them.
 */
export async function sortPairs<T>({ values, objects }: Pairs<T>, yielder: Yielder): Promise<Pairs<T>> {
  if (await ascend(values, yielder)) return { values, objects }
  const groups = new Map<string, number>()
  const sizes: number[] = []
  const groupOf = new Uint32Array(values.length)
  for (let at = 0; at < values.length; at++) {
    if (at % steps.between === 0) await yielder.pause()
    const value = values[at]
    if (value === undefined) continue
    let group = groups.get(value)
    if (group === undefined) {
      group = sizes.length
      groups.set(value, group)
      sizes.push(0)
    }
    sizes[group] = (sizes[group] ?? 0) + 1
    groupOf[at] = group
  }
  // The position of the next pair of each group.
  const places = new Uint32Array(sizes.length)
  let place = 0
  for (const value of await sortTexts([...groups.keys()], yielder)) {
    const group = groups.get(value) ?? 0
    places[group] = place
    place += sizes[group] ?? 0
  }
  const sortedValues = new Array<string | undefined>(values.length)
  const sortedObjects = new Array<T>(objects.length)
  let at = 0
  for (const object of objects) {
    if (at % steps.between === 0) await yielder.pause()
    const value = values[at]
    const group = groupOf[at++] ?? 0
    const to = value === undefined ? place++ : (places[group] ?? 0)
    if (value !== undefined) places[group] = to + 1
    sortedValues[to] = value
    sortedObjects[to] = object
  }
  return { values: sortedValues, objects: sortedObjects }
}

/** Returns true if the values are sorted already. Many grow with names, such as counters and times. */
async function ascend(values: readonly (string | undefined)[], yielder: Yielder): Promise<boolean> {
  let before: string | undefined = ''
  for (let at = 0; at < values.length; at++) {
    if (at % steps.between === 0) await yielder.pause()
    const value = values[at]
    // If the left text orders by unit, `<` is the order of code points.
    if (value !== undefined && (before === undefined || value < before || !ordersByUnit(value))) return false
    before = value
  }
  return true
}

/** Sorts distinct texts by code point, in runs that it merges, so that no step takes long. */
async function sortTexts(texts: readonly string[], yielder: Yielder): Promise<readonly string[]> {
  const compare = texts.every(ordersByUnit) ? compareUnits : compareCodePoints
  const runs: (readonly string[])[] = []
  for (let at = 0; at < texts.length; at += steps.run) {
    await yielder.pause()
    runs.push(texts.slice(at, at + steps.run).sort(compare))
  }
  return finishYielding(mergeRuns(runs, compare), yielder)
}
