import { isDeepStrictEqual } from 'node:util'
import { isFields } from '../../support/json.ts'
import { type Commit, type History, titleOf, type Violation, type WatchRecord } from '../history.ts'
import { isSelected, metadataOf, nameOf, namespaceOf, versionOf } from '../objects.ts'
import { Truth } from '../truth.ts'

const judge = 'watches'

/**
 * A watch sends each change of the objects that it selects exactly once, in the order of versions, as it was stored. At a
 * bookmark nothing up to its version is missing. It begins with exactly the state at its first bookmark, or after its version.
 */
export function judgeWatches(history: History): Violation[] {
  const truth = new Truth(history)
  return history.watches.flatMap(watch =>
    judgeWatch(watch, truth, history).map(({ at, text }) => ({
      judge,
      at,
      message: `watch ${watch.id} of ${titleOf(watch.resource)} ${text}`,
    })),
  )
}

interface Found {
  readonly at: number
  readonly text: string
}

function judgeWatch(watch: WatchRecord, truth: Truth, history: History): Found[] {
  const found: Found[] = []
  const resource = titleOf(watch.resource)
  let known = watch.from
  const initial: unknown[] = []
  for (const { at, type, object } of watch.messages) {
    const say = (text: string) => found.push({ at, text })
    const version = versionOf(object)
    if (type === 'ERROR') {
      const text = judgeError(object, { at, known, truth, history })
      if (text !== undefined) say(text)
    } else if (type === 'BOOKMARK') {
      if (known === undefined) {
        if (!endsInitialEvents(object))
          say(`sent a bookmark of ${version} before the end of the initial events`)
        for (const text of judgeInitial(watch, initial, version, truth)) say(text)
      } else {
        if (version < known) say(`sent a bookmark of ${version} after version ${known}`)
        for (const text of missed(watch, truth, known, version)) say(text)
      }
      if (version > truth.committedBy(at) && truth.at(version) !== undefined)
        say(`sent a bookmark of ${version}, which was not yet committed`)
      known = Math.max(known ?? 0, version)
    } else if (known === undefined) {
      if (type !== 'ADDED') say(`sent ${type} ${nameOf(object)} among the initial events`)
      initial.push(object)
    } else {
      const what = `sent ${type} ${nameOf(object)} of ${version}`
      if (version <= known) say(`${what} after version ${known}`)
      const commit = truth.at(version)
      const isOfIt =
        commit?.resource === resource &&
        commit.name === nameOf(object) &&
        commit.namespace === namespaceOf(object)
      const event = commit !== undefined && isOfIt ? eventOf(commit, truth.before(commit), watch) : undefined
      if (event === undefined) say(`${what}, which is no change that it selects`)
      else if (event.type !== type) say(`${what}, which should be ${event.type}`)
      else if (!isDeepStrictEqual(event.object, object))
        say(`${what} as ${JSON.stringify(object)} instead of ${JSON.stringify(event.object)}`)
      if (commit !== undefined && commit.at > at) say(`${what} before it was committed`)
      for (const text of missed(watch, truth, known, version - 1)) say(text)
      known = Math.max(known, version)
    }
  }
  return found
}

function missed(watch: WatchRecord, truth: Truth, from: number, to: number): string[] {
  return [...changesFor(watch, truth, from, to)].map(
    ({ type, commit: { name, revision } }) => `never sent ${type} ${name} of ${revision}`,
  )
}

/** Yields the changes after a revision up to another that a watch has to send. */
export function* changesFor(
  watch: WatchRecord,
  truth: Truth,
  from: number,
  to: number,
): Generator<{ readonly type: string; readonly commit: Commit }> {
  for (const commit of truth.commits) {
    if (commit.revision <= from || commit.revision > to || commit.resource !== titleOf(watch.resource))
      continue
    const event = eventOf(commit, truth.before(commit), watch)
    if (event !== undefined) yield { type: event.type, commit }
  }
}

function eventOf(
  { object, revision }: Commit,
  before: Commit | undefined,
  { selection }: WatchRecord,
): { type: string; object: unknown } | undefined {
  const matched = before?.object !== undefined && isSelected(before.object, selection)
  if (object !== undefined && isSelected(object, selection))
    return { type: matched ? 'MODIFIED' : 'ADDED', object }
  if (!matched || before?.object === undefined) return undefined
  const text = String(revision)
  const metadata = { ...metadataOf(before.object), version: text, resourceVersion: text }
  return { type: 'DELETED', object: { ...before.object, metadata } }
}

function judgeInitial(
  watch: WatchRecord,
  initial: readonly unknown[],
  version: number,
  truth: Truth,
): string[] {
  const resource = titleOf(watch.resource)
  const expected = truth
    .stateAt(resource, version)
    .filter(({ object }) => isSelected(object, watch.selection))
  const found: string[] = []
  for (const [n, object] of initial.entries()) {
    const commit = expected[n]
    if (!isDeepStrictEqual(commit?.object, object))
      found.push(
        `began at ${version} with ${nameOf(object)} of ${versionOf(object)} instead of ${commit?.name} of ${commit?.revision}`,
      )
  }
  for (const { name, revision } of expected.slice(initial.length))
    found.push(`began at ${version} without ${name} of ${revision}`)
  const floor = truth.knownBefore(watch.at)
  const isBehind = (each: Commit) =>
    each.resource === resource && each.revision > version && each.revision <= floor
  if (truth.commits.some(isBehind)) found.push(`began at ${version}, although ${floor} was known before`)
  return found
}

function endsInitialEvents(object: unknown): boolean {
  const { annotations } = metadataOf(object)
  return isFields(annotations) && annotations['k8s.io/initial-events-end'] === 'true'
}

interface ErrorContext {
  readonly at: number
  readonly known: number | undefined
  readonly truth: Truth
  readonly history: History
}

function judgeError(object: unknown, { at, known, truth, history }: ErrorContext): string | undefined {
  const code = isFields(object) ? object.code : undefined
  if (code !== 410)
    return code === 403 || code === 503 ? undefined : `ended with the error ${JSON.stringify(object)}`
  const compacted = Math.max(
    0,
    ...history.compactions.filter(each => each.at <= at).map(each => each.revision),
  )
  if (known === undefined || compacted > known || known > truth.committedBy(at)) return undefined
  return `ended with 410 after version ${known}, but only ${compacted} is compacted`
}
