import { type History, titleOf, type Violation } from '../history.ts'
import { gears } from '../kinds.ts'
import { metadataOf, versionOf } from '../objects.ts'
import { Truth } from '../truth.ts'
import { hasGears, judgeEndOfDefinitions } from './definitions.ts'
import { judgeDependents } from './dependents.ts'
import { hasLateIndexes, judgeReleases } from './releases.ts'
import { changesFor } from './watches.ts'

const judge = 'convergence'

/** Milliseconds that a watcher may be without an open watch. */
const reopenMs = 5_000

/** Milliseconds until an open watch has sent a change. */
const deliveryMs = 2_000

/** Milliseconds until servers look again whether a namespace is empty. */
const namespaceMs = 12_000

/**
 * Once the faults have ended, everything ends in time: every call has a response, every open watch has sent the last
 * change that it selects, requests succeed, and no object waits for the collector.
 */
export function judgeConvergence(history: History): Violation[] {
  const { calls, watches, healedAt, endedAt } = history
  const truth = new Truth(history)
  const found: Violation[] = []
  const say = (message: string) => found.push({ judge, at: endedAt, message })
  for (const { id, type, resource, outcome, at } of calls) {
    if (outcome.type === 'pending') say(`call ${id} (${type}) of ${at} has no response`)
    else if (at >= healedAt && (outcome.type === 'unknown' || outcome.status >= 500)) {
      if (type === 'write' && hasLateIndexes(history, resource)) continue
      say(`call ${id} (${type}) failed after the faults had ended: ${JSON.stringify(outcome)}`)
    }
  }
  const last = new Map(watches.map(watch => [watch.watcher, watch]))
  for (const watch of last.values()) {
    if (watch.end?.byClient || watch.token !== undefined) continue
    if (titleOf(watch.resource) === titleOf(gears) && !hasGears(truth)) continue
    // One that has just ended is opened again.
    if (watch.end !== undefined && endedAt - watch.end.at > reopenMs)
      say(`watcher ${watch.watcher} has had no open watch since ${watch.end.at}`)
    const known = Math.max(watch.from ?? 0, ...watch.messages.map(({ object }) => versionOf(object) || 0))
    const isBegun = watch.from !== undefined || watch.messages.some(({ type }) => type === 'BOOKMARK')
    if (!isBegun) {
      if (watch.end === undefined && endedAt - watch.at > deliveryMs)
        say(`watch ${watch.id} has not sent what there was at its beginning`)
      continue
    }
    for (const { type, commit } of changesFor(watch, truth, known, Number.POSITIVE_INFINITY))
      if (endedAt - commit.at > deliveryMs)
        say(`watch ${watch.id} has not sent ${type} ${commit.name} of ${commit.revision}`)
  }
  const left = [...judgeDependents(history, truth), ...judgeNamespaces(truth, endedAt)]
  return [...found, ...left, ...judgeReleases(history), ...judgeEndOfDefinitions(history)]
}

/** Nothing is left in a namespace that is gone, or waits for nothing but its end. */
function judgeNamespaces(truth: Truth, at: number): Violation[] {
  const objects = [...new Set(truth.commits.map(({ resource }) => resource))].flatMap(each =>
    truth.stateAt(each, Number.POSITIVE_INFINITY),
  )
  const namespaces = new Map(
    objects.filter(({ resource }) => resource === '/namespaces').map(({ name, object }) => [name, object]),
  )
  const found: Violation[] = []
  for (const { name, namespace } of objects)
    if (namespace !== undefined && namespaces.size > 0 && !namespaces.has(namespace))
      found.push({ judge, at, message: `${name} is in the namespace ${namespace}, which is gone` })
  for (const [name, object] of namespaces) {
    const isEnding = metadataOf(object).deletionTimestamp !== undefined
    if (!isEnding || objects.some(({ namespace }) => namespace === name)) continue
    const emptySince = truth.commits.findLast(({ namespace }) => namespace === name)?.at ?? 0
    if (at - emptySince > namespaceMs)
      found.push({ judge, at, message: `the namespace ${name} is empty and does not end` })
  }
  return found
}
