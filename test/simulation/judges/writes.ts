import { isDeepStrictEqual } from 'node:util'
import { type Fields, isFields } from '../../support/json.ts'
import {
  type Call,
  type Commit,
  type History,
  titleOf,
  type Violation,
  type WriteRequest,
} from '../history.ts'
import { finalizersOf, markOf, metadataOf, specOf, versionOf } from '../objects.ts'
import { Truth } from '../truth.ts'
import { mayLackKind } from './definitions.ts'
import { mayLackVersion } from './served.ts'

const judge = 'writes'

type Write = Extract<Call, { type: 'write' }>

/**
 * Each write happens at one moment between its request and its response, or not at all: an acknowledged one with the version,
 * the content and the preconditions that were asked for; a refused one never, and for a reason that held at that moment; one
 * without a response at most once. Nothing else changes an object.
 */
export function judgeWrites(history: History): Violation[] {
  const truth = new Truth(history)
  const writes = history.calls.filter(call => call.type === 'write')
  return [
    ...writes.flatMap(write => judgeWrite(write, truth, history).map(text => violation(write, text))),
    ...judgeMarks(writes, truth),
  ]
}

function judgeWrite(write: Write, truth: Truth, history: History): string[] {
  const { outcome } = write
  if (outcome.type !== 'responded') return []
  if (outcome.status < 300) return acknowledged(write, outcome, truth)
  if (outcome.status === 404 && (mayLackVersion(history, write) || mayLackKind(truth, write))) return []
  return refused(write, outcome, truth)
}

interface Response {
  readonly at: number
  readonly status: number
  readonly body: unknown
}

function acknowledged(write: Write, { at, body }: Response, truth: Truth): string[] {
  const { request } = write
  const commits = truth.of(titleOf(write.resource), request.namespace, request.name)
  const version = versionOf(body)
  const commit =
    commits.find(({ revision }) => revision === version) ??
    commits.find(each => isFirstIn(each, write.at, at) && each.object === undefined)
  if (commit === undefined)
    return [`was acknowledged with version ${version}, at which the object did not change`]
  if (isFirstIn(commit, write.at, at)) {
    if (changesNothing(request, commit)) return []
    const found = effectOf(request, commit, truth.before(commit))
    if (commit.object !== undefined && !isDeepStrictEqual(commit.object, body))
      found.push(`was answered with ${show(body)}, but stored is ${show(commit.object)}`)
    return found
  }
  const removal = commits.find(each => isFirstIn(each, write.at, at) && each.object === undefined)
  if (request.verb !== 'create' && removal !== undefined && isRemoval(request, truth.before(removal)))
    return effectOf(request, removal, truth.before(removal))
  // Nothing was to change.
  if (request.mark !== undefined) return [`was acknowledged with version ${version} of another write`]
  const isCurrent = truth.wasEver(commit, { from: write.at, to: at }, each => each === commit)
  return isCurrent ? [] : [`changed nothing of version ${version}, which was not the object's version`]
}

/** Returns whether a request has nothing to change in a state, which another one may have made meanwhile. */
function changesNothing({ verb, version, uid, mark }: WriteRequest, { object, revision }: Commit): boolean {
  if (verb === 'finalize') return finalizersOf(object).length === 0
  // Without a mark, a patch may ask for what another write has just left.
  if (verb === 'merge' && mark === undefined) return true
  const { deletionTimestamp, uid: found } = metadataOf(object)
  const isMeant = (version ?? revision) === revision && (uid ?? found) === found
  return verb === 'delete' && deletionTimestamp !== undefined && isMeant
}

function isRemoval({ verb }: WriteRequest, before: Commit | undefined): boolean {
  if (verb === 'delete') return finalizersOf(before?.object).length === 0
  return metadataOf(before?.object).deletionTimestamp !== undefined
}

function isFirstIn({ at }: Commit, from: number, to: number): boolean {
  return at >= from && at <= to
}

/** Checks that a change is what the request asked for. */
function effectOf(request: WriteRequest, { object, revision }: Commit, before: Commit | undefined): string[] {
  const old = before?.object
  const found: string[] = []
  const { verb, version, uid } = request
  if (verb === 'create' && old !== undefined) found.push(`created at ${revision} an object that existed`)
  if (verb !== 'create' && verb !== 'apply' && old === undefined)
    found.push(`changed at ${revision} an object that did not exist`)
  if (version !== undefined && before?.revision !== version)
    found.push(`required version ${version}, but changed version ${before?.revision} at ${revision}`)
  if (uid !== undefined && metadataOf(old).uid !== uid)
    found.push(`required uid ${uid}, but changed ${String(metadataOf(old).uid)} at ${revision}`)
  if (object === undefined || verb === 'delete') return found
  if (request.mark !== undefined && markOf(object) !== request.mark)
    found.push(`left the mark ${markOf(object)} at ${revision}`)
  const expected = specAfter(request, specOf(old))
  // Only the server says what the spec of a new namespace is.
  if (verb === 'create' && request.spec === undefined) return found
  if (!isDeepStrictEqual(specOf(object), expected))
    found.push(`left the spec ${show(specOf(object))} at ${revision} instead of ${show(expected)}`)
  return found
}

function specAfter({ verb, spec }: WriteRequest, before: Fields): Fields {
  if (spec === undefined) return before
  if (verb === 'create' || verb === 'update') return spec
  return { ...before, ...spec }
}

/** Checks that there was a moment at which the refusal was right. */
function refused(write: Write, { at, status, body }: Response, truth: Truth): string[] {
  const { request, resource } = write
  const object = { resource: titleOf(resource), namespace: request.namespace, name: request.name }
  const ever = (holds: (commit: Commit | undefined) => boolean) =>
    truth.wasEver(object, { from: write.at, to: at }, holds)
  const exists = (commit: Commit | undefined) => commit?.object !== undefined
  const reason = isFields(body) ? body.reason : undefined
  switch (status) {
    case 404:
      if (request.verb === 'create')
        return request.namespace === undefined || request.namespace === 'default'
          ? ['was refused with 404, although its kind and namespace are there']
          : []
      return ever(each => !exists(each)) ? [] : ['was refused with 404, but the object existed all the time']
    case 409: {
      if (isDuplicate(body)) return []
      if (reason === 'AlreadyExists')
        return ever(exists) ? [] : ['was refused with 409 AlreadyExists, but there was no such object']
      const { version, uid } = request
      if (version === undefined && uid === undefined)
        return request.verb === 'apply' ? [] : ['was refused with 409 Conflict, and had no precondition']
      const isOther = ever(
        each => each?.revision !== version || (uid !== undefined && metadataOf(each?.object).uid !== uid),
      )
      return isOther ? [] : [`was refused with 409, but the precondition held all the time`]
    }
    case 403:
    case 410:
    case 422:
    case 429:
    case 503:
    // It may have happened.
    case 504:
      return []
    default:
      return [`was refused with ${status} ${show(body)}`]
  }
}

function isDuplicate(body: unknown): boolean {
  return (JSON.stringify(body) ?? '').includes('FieldValueDuplicate')
}

/** Checks that every mark in the store comes from one write that was not refused, and was left once. */
function judgeMarks(writes: readonly Write[], truth: Truth): Violation[] {
  const byMark = new Map(
    writes.flatMap(write => (write.request.mark === undefined ? [] : [[write.request.mark, write]])),
  )
  const left = new Map<string, number>()
  const found: Violation[] = []
  for (const commit of truth.commits) {
    const mark = markOf(commit.object)
    if (mark === undefined || commit.isRestored || mark === markOf(truth.before(commit)?.object)) continue
    const write = byMark.get(mark)
    const what = `${commit.name} has at ${commit.revision} the mark ${mark}`
    const say = (message: string) => found.push({ judge, at: commit.at, message: `${what} ${message}` })
    if (write === undefined) {
      say('of no write')
      continue
    }
    const earlier = left.get(mark)
    left.set(mark, commit.revision)
    if (earlier !== undefined) say(`of a write that happened already at ${earlier}`)
    if (commit.at < write.at) say('of a write that had not been asked for')
    const { outcome } = write
    if (outcome.type !== 'responded' || outcome.status === 504) continue
    if (outcome.status >= 300) say(`of a write that was refused with ${outcome.status}`)
    else if (commit.at > outcome.at) say('of a write that had been acknowledged before')
  }
  for (const { request, outcome, id } of writes) {
    if (outcome.type !== 'responded' || outcome.status >= 300 || request.mark === undefined) continue
    if (left.has(request.mark) || isGoneAfter(request, outcome.body)) continue
    found.push({ judge, at: outcome.at, message: `call ${id} was acknowledged and never happened` })
  }
  return found
}

/** The write that takes the last finalizer from a deleting object leaves nothing. */
function isGoneAfter(request: WriteRequest, body: unknown): boolean {
  return (
    request.verb !== 'create' &&
    metadataOf(body).deletionTimestamp !== undefined &&
    finalizersOf(body).length === 0
  )
}

function violation({ id, at, request: { verb, name } }: Write, text: string): Violation {
  return { judge, at, message: `call ${id} (${verb} ${name}) ${text}` }
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}
