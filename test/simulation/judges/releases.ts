import { type History, type RecordChange, type Resource, titleOf, type Violation } from '../history.ts'
import { gears } from '../kinds.ts'
import { Truth } from '../truth.ts'
import { secondVersion } from '../versions.ts'

const judge = 'convergence'

/** In the end every server serves the last release alone, and all objects are stored in the version that writes store. */
export function judgeReleases(history: History): Violation[] {
  const { served, records, lastRelease, endedAt } = history
  const found: Violation[] = []
  const say = (message: string) => found.push({ judge, at: endedAt, message })
  for (const server of new Set(served.map(each => each.server))) {
    const serving = served.filter(each => each.server === server && each.until === Number.POSITIVE_INFINITY)
    const releases = serving.map(({ release }) => release).join(' and ')
    if (releases !== String(lastRelease))
      say(`server ${server} serves release ${releases || 'none'} instead of ${lastRelease}`)
  }
  const truth = new Truth(history)
  for (const resource of new Set(records.map(each => each.resource))) {
    const last = records.findLast(each => each.resource === resource)
    if (last?.stores === undefined) continue
    const { stores, mayStore, uniqueness } = last
    if (mayStore.join() !== stores)
      say(`objects of ${resource} may be stored in ${mayStore.join(' and ')} instead of ${stores}`)
    // Of two releases the newer one decides, also if the older one starts later.
    const isBack =
      history.restores.length === 0 && records.some(isOf(resource, secondVersion)) && stores !== secondVersion
    if (isBack) say(`objects of ${resource} are stored in ${stores} again`)
    if (lastRelease === 2 && resource !== titleOf(gears) && stores !== secondVersion)
      say(`objects of ${resource} are stored in ${stores} in release 2`)
    if (uniqueness === 'recomputing' && !last.isLate)
      say(`the unique values of ${resource} are still being computed`)
    for (const { name, storedIn } of truth.stateAt(resource, Number.POSITIVE_INFINITY))
      if (storedIn !== stores) say(`${name} is stored in ${storedIn} instead of ${stores}`)
  }
  return found
}

/**
 * Returns whether the unique indexes of a kind may not be those of any server in the end: a set that was put in force by a
 * server that had died since, or had lost the store, stays until a server starts.
 */
export function hasLateIndexes({ records }: History, resource: Resource): boolean {
  return records.findLast(each => each.resource === titleOf(resource))?.isLate === true
}

function isOf(resource: string, version: string): (record: RecordChange) => boolean {
  return record => record.resource === resource && record.stores === version
}
