import { type Commit, type History, titleOf, type Violation } from '../history.ts'
import { gears } from '../kinds.ts'
import { metadataOf } from '../objects.ts'
import type { Truth } from '../truth.ts'
import { hadGears } from './definitions.ts'
import { ownersOf } from './life.ts'

const judge = 'convergence'

/** Milliseconds until the collector has discovered a kind and read its objects. */
const discoveryMs = 35_000

/** Milliseconds until the collector has seen a change. */
const seenMs = 500

/** No object is left whose owners are gone. */
export function judgeDependents(history: History, truth: Truth): Violation[] {
  const { endedAt: at } = history
  const hasRead = hadGears(truth, { from: at - discoveryMs, to: at })
  const resources = new Set(truth.commits.map(({ resource }) => resource))
  const objects = [...resources].flatMap(each => truth.stateAt(each, Number.POSITIVE_INFINITY))
  const uids = new Set(objects.map(({ object }) => metadataOf(object).uid))
  return objects.flatMap(dependent => {
    const { name, object } = dependent
    const owners = ownersOf(object)
    if (owners.length === 0 || metadataOf(object).deletionTimestamp !== undefined) return []
    const mayStay = (uid: string) =>
      uids.has(uid) || (!hasRead && isGear(truth, uid) && !wasSeenToGo(uid, dependent, history, truth))
    if (owners.some(({ uid }) => mayStay(uid))) return []
    return [{ judge, at, message: `${name} is still there although its owners are gone` }]
  })
}

function isGear(truth: Truth, uid: string): boolean {
  return lastOfGear(truth, uid) !== undefined
}

/**
 * Returns whether the collector must have seen a gear go and known that it had this dependent. Once the kind is no longer
 * served, it cannot read the gear. During an update its server may be one that cannot read the dependent.
 */
function wasSeenToGo(uid: string, dependent: Commit, { isCalm, served }: History, truth: Truth): boolean {
  const isUpdated = new Set(served.map(({ release }) => release)).size > 1
  const last = lastOfGear(truth, uid)
  const deletion = last && truth.after(last)
  if (!isCalm || isUpdated || deletion === undefined || dependent.at > deletion.at - seenMs) return false
  return hadGears(truth, { from: deletion.at - discoveryMs, to: deletion.at })
}

function lastOfGear({ commits }: Truth, uid: string): Commit | undefined {
  return commits.findLast(
    ({ resource, object }) => resource === titleOf(gears) && metadataOf(object).uid === uid,
  )
}
