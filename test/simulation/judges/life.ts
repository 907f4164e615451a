import { isDeepStrictEqual } from 'node:util'
import { isFields } from '../../support/json.ts'
import { type Commit, type History, titleOf, type Violation } from '../history.ts'
import { finalizersOf, metadataOf } from '../objects.ts'
import { Truth } from '../truth.ts'
import { isEndingAt } from './definitions.ts'

const judge = 'life'

/**
 * An object keeps its identity, its deletion is never taken back, it does not gain finalizers while it is deleted, and it goes
 * only when a request has taken the last one. It is deleted by a client, or because its owners are gone.
 */
export function judgeLife(history: History): Violation[] {
  const truth = new Truth(history)
  const found: Violation[] = []
  for (const commit of truth.commits) {
    const before = truth.before(commit)
    // Built-in kinds are kept by rules of their own, and a restore by none of them.
    if (
      commit.isRestored ||
      before?.object === undefined ||
      !/^(sim|live)\.example\.com\//.test(commit.resource)
    )
      continue
    const texts = commit.object === undefined ? judgeEnd(commit, before, history) : judgeStep(commit, before)
    if (isDeletion(commit, before)) texts.push(...judgeDeletion(commit, before, truth, history))
    for (const text of texts)
      found.push({ judge, at: commit.at, message: `${commit.name} at ${commit.revision} ${text}` })
  }
  return found
}

/** Compares two states of one object. */
function judgeStep({ object }: Commit, before: Commit): string[] {
  const [old, now] = [metadataOf(before.object), metadataOf(object)]
  const found: string[] = []
  for (const field of ['uid', 'creationTimestamp'] as const)
    if (old[field] !== now[field]) found.push(`has another ${field}`)
  const { deletionTimestamp } = old
  if (deletionTimestamp === undefined) {
    if (now.deletionTimestamp !== undefined && finalizersOf(object).length === 0)
      found.push('is deleted without finalizers and still there')
  } else {
    if (now.deletionTimestamp !== deletionTimestamp) found.push('has another deletionTimestamp')
    const kept = finalizersOf(before.object)
    if (finalizersOf(object).some(each => !kept.includes(each))) found.push('got a finalizer while deleted')
    if (finalizersOf(object).length === 0) found.push('has no finalizer left and is still there')
  }
  const [from, to] = [Number(old.generation), Number(now.generation)]
  const isChanged =
    !isDeepStrictEqual(contentOf(before.object), contentOf(object)) || isDeletion({ object }, before)
  if (to !== from + Number(isChanged)) found.push(`has the generation ${to} after ${from}`)
  return found
}

function contentOf(object: unknown): unknown {
  if (!isFields(object)) return undefined
  const { metadata: _metadata, ...content } = object
  return content
}

function isDeletion({ object }: Pick<Commit, 'object'>, before: Commit): boolean {
  if (metadataOf(before.object).deletionTimestamp !== undefined) return false
  return object === undefined || metadataOf(object).deletionTimestamp !== undefined
}

const collectorFinalizers: readonly string[] = ['foregroundDeletion', 'orphan']

/** An object with finalizers ends by a write that takes them. */
function judgeEnd(commit: Commit, before: Commit, { calls }: History): string[] {
  // The collector takes its own.
  if (finalizersOf(before.object).every(each => collectorFinalizers.includes(each))) return []
  if (metadataOf(before.object).deletionTimestamp === undefined) return ['went with its finalizers']
  const isTaken = calls.some(call => isFinal(call) && isAbout(call, commit) && call.at <= commit.at)
  return isTaken ? [] : ['went with finalizers that nobody took']
}

function judgeDeletion(commit: Commit, before: Commit, truth: Truth, { calls }: History): string[] {
  const isAsked = calls.some(
    call =>
      call.type === 'write' &&
      call.request.verb === 'delete' &&
      isAbout(call, commit) &&
      call.at <= commit.at,
  )
  if (isAsked) return []
  const { namespace, revision } = commit
  const within =
    namespace === undefined
      ? undefined
      : truth.of('/namespaces', undefined, namespace).findLast(each => each.revision < revision)
  if (metadataOf(within?.object).deletionTimestamp !== undefined || isEndingAt(truth, commit)) return []
  const owners = ownersOf(before.object)
  if (owners.length === 0) return ['was deleted, and nobody asked for it']
  const alive = owners.find(({ uid }) => isAlive(uid, commit, truth))
  if (alive !== undefined) return [`was deleted although its owner ${alive.name} exists`]
  const orphaning = owners.find(({ uid }) => isOrphanOf(uid, before, truth, calls))
  return orphaning === undefined ? [] : [`was deleted although ${orphaning.name} went without its dependents`]
}

export function ownersOf(object: unknown): { readonly name: string; readonly uid: string }[] {
  const { ownerReferences } = metadataOf(object)
  if (!Array.isArray(ownerReferences)) return []
  return ownerReferences.filter(isFields).map(({ name, uid }) => ({ name: String(name), uid: String(uid) }))
}

/** Returns whether an owner with this uid was there at the time of a change, and did not wait for its dependents to go. */
function isAlive(uid: string, { revision }: Commit, truth: Truth): boolean {
  const last = truth.commits.findLast(each => each.revision < revision && metadataOf(each.object).uid === uid)
  if (last === undefined) return false
  const isWaiting = metadataOf(last.object).deletionTimestamp !== undefined
  if (isWaiting && finalizersOf(last.object).includes('foregroundDeletion')) return false
  const next = truth.after(last)
  return next === undefined || next.revision > revision
}

/**
 * Returns whether the collector completed a deletion with orphans of an owner, and the object has belonged to it since that
 * began. A client may make an orphan a dependent again.
 */
function isOrphanOf(
  uid: string,
  { resource, namespace, name, object, revision }: Commit,
  truth: Truth,
  calls: History['calls'],
): boolean {
  const ofOwner = truth.commits.filter(each => metadataOf(each.object).uid === uid)
  // A restore may bring back what was being deleted.
  const begun =
    ofOwner[ofOwner.findLastIndex(each => metadataOf(each.object).deletionTimestamp === undefined) + 1]
  const last = ofOwner.at(-1)
  const end = last && truth.after(last)
  if (begun === undefined || end === undefined || !finalizersOf(last?.object).includes('orphan')) return false
  // A client that takes all finalizers takes the collector's too.
  if (calls.some(call => isFinal(call) && isAbout(call, end) && call.at <= end.at)) return false
  const states = truth.of(resource, namespace, name)
  const then = states.findLastIndex(each => each.revision < begun.revision)
  return (
    then >= 0 &&
    states
      .slice(then)
      .filter(each => each.revision <= revision)
      .every(each => metadataOf(each.object).uid === metadataOf(object).uid && hasOwner(each.object, uid))
  )
}

function hasOwner(object: unknown, uid: string): boolean {
  return ownersOf(object).some(owner => owner.uid === uid)
}

/** Returns whether a call can take finalizers. */
function isFinal(call: History['calls'][number]): boolean {
  return call.type === 'write' && (call.request.verb === 'finalize' || call.request.verb === 'update')
}

function isAbout(call: History['calls'][number], { resource, namespace, name }: Commit): boolean {
  return (
    call.type === 'write' &&
    titleOf(call.resource) === resource &&
    call.request.namespace === namespace &&
    call.request.name === name
  )
}
