import { isFields } from '../../support/json.ts'
import { type Call, type Commit, type History, titleOf, type Violation } from '../history.ts'
import { definitionOfGears, definitions, gears } from '../kinds.ts'
import { metadataOf } from '../objects.ts'
import { Truth } from '../truth.ts'

const judge = 'definitions'

/**
 * The objects of a definition, and the values that they hold, go before it does, and none is created until there is another
 * one. Every server serves a definition for the requests after a client has seen it established.
 */
export function judgeDefinitions(history: History): Violation[] {
  const found: Violation[] = []
  const truth = new Truth(history)
  for (const { at, revision, keys } of history.definitionEnds)
    for (const key of keys)
      found.push({ judge, at, message: `the definition went at ${revision} and has left ${key}` })
  for (const commit of truth.commits) {
    if (commit.resource !== titleOf(gears) || commit.object === undefined || commit.isRestored) continue
    if (definitionAt(truth, commit.revision)?.object === undefined)
      found.push({
        judge,
        at: commit.at,
        message: `${commit.name} is there at ${commit.revision} without a definition`,
      })
  }
  for (const { id, at, type, resource, outcome } of history.calls) {
    if (type !== 'write' || titleOf(resource) !== titleOf(gears) || outcome.type !== 'responded') continue
    if (outcome.status !== 403 || wasEver(truth, { from: at, to: outcome.at }, mayBeEnding)) continue
    found.push({ judge, at, message: `call ${id} was refused with 403, and the definition was not deleted` })
  }
  return found
}

/** Milliseconds until a watch of a kind that has gone has ended. */
const watchEndMs = 5_000

/** A definition that is deleted ends when the last object has gone, and then the watches of its objects end. */
export function judgeEndOfDefinitions(history: History): Violation[] {
  const { watches, endedAt } = history
  const truth = new Truth(history)
  const last = definitionAt(truth, Number.POSITIVE_INFINITY)
  if (last !== undefined && last.object === undefined && endedAt - last.at > watchEndMs)
    return watches
      .filter(
        ({ resource, end, at }) => titleOf(resource) === titleOf(gears) && end === undefined && at < last.at,
      )
      .map(({ id }) => ({
        judge: 'convergence',
        at: endedAt,
        message: `watch ${id} goes on although its definition has gone`,
      }))
  const isEmpty = truth.stateAt(titleOf(gears), Number.POSITIVE_INFINITY).length === 0
  if (!isEmpty || !isEnding(last)) return []
  const message = 'the definition of gears has no objects and does not end'
  return [{ judge: 'convergence', at: endedAt, message }]
}

/** Returns whether the kind of a call may not be served, because a client may not know yet that its definition is established. */
export function mayLackKind(truth: Truth, { at, resource, outcome }: Call): boolean {
  if (titleOf(resource) !== titleOf(gears) || outcome.type !== 'responded') return false
  return wasEver(truth, { from: at, to: outcome.at }, commit => !isEstablished(commit))
}

function wasEver(
  truth: Truth,
  time: { readonly from: number; readonly to: number },
  holds: (commit: Commit | undefined) => boolean,
): boolean {
  return truth.wasEver(
    { resource: titleOf(definitions), namespace: undefined, name: definitionOfGears },
    time,
    holds,
  )
}

/** Returns whether gears are served in the end. */
export function hasGears(truth: Truth): boolean {
  return isEstablished(definitionAt(truth, Number.POSITIVE_INFINITY))
}

/** Returns whether gears were served all the time, and a client knew it. */
export function hadGears(truth: Truth, time: { readonly from: number; readonly to: number }): boolean {
  return !wasEver(truth, time, commit => !isEstablished(commit))
}

/** Returns whether the definition of an object was being deleted at a revision. */
export function isEndingAt(truth: Truth, { resource, revision }: Commit): boolean {
  return resource === titleOf(gears) && isEnding(definitionAt(truth, revision))
}

function definitionAt(truth: Truth, revision: number): Commit | undefined {
  return truth
    .of(titleOf(definitions), undefined, definitionOfGears)
    .findLast(each => each.revision <= revision)
}

/**
 * A server that is behind says of a definition that has gone that it is being deleted, until another one is established.
 */
function mayBeEnding(commit: Commit | undefined): boolean {
  return !isEstablished(commit) || isEnding(commit)
}

function isEnding(commit: Commit | undefined): boolean {
  return metadataOf(commit?.object).deletionTimestamp !== undefined
}

function isEstablished(commit: Commit | undefined): boolean {
  const status = isFields(commit?.object) && isFields(commit.object.status) ? commit.object.status : {}
  const conditions = Array.isArray(status.conditions) ? status.conditions.filter(isFields) : []
  return conditions.some(({ type, status }) => type === 'Established' && status === 'True')
}
