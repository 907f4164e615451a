import { type History, titleOf, type Violation } from '../history.ts'
import { bindings, reader, roles } from '../kinds.ts'
import { Truth } from '../truth.ts'
import { overrun } from './restores.ts'

const judge = 'access'

/**
 * Milliseconds that a server may decide by roles that have changed: requests do not wait until it has caught up, so this is
 * the longest pause or lag of a plan, and the way of a request.
 */
const behindMs = 20_000

/**
 * A user sees only what roles allowed at that time, where a server that stood still may know earlier roles.
 * Whoever was allowed all the time is not refused.
 */
export function judgeAccess(history: History): Violation[] {
  const grants = grantsOf(history)
  const wasGranted = (from: number, to: number) => grants.some(each => each.from <= to && each.to >= from)
  const wasAlwaysGranted = (from: number, to: number) =>
    grants.some(each => each.from <= from && each.to >= to)
  /** From when roles may count. A server that ran during a restore knows those from before it. */
  const since = (server: number, time: { readonly from: number; readonly to: number }) =>
    Math.min(time.from, overrun(history, { server, ...time })?.at ?? time.from) - behindMs
  const found: Violation[] = []
  for (const { id, type, at, user, server, outcome } of history.calls) {
    if (outcome.type !== 'responded') continue
    const time = { from: at, to: outcome.at }
    const say = (message: string) =>
      found.push({ judge, at: outcome.at, message: `call ${id} (${type}) ${message}` })
    if (user === undefined) {
      if (outcome.status === 401) say('was refused with 401 without a token')
    } else if (outcome.status < 300 && !wasGranted(since(server, time), outcome.at))
      say(`of ${user} was allowed, although no role allowed it`)
    else if (
      outcome.status === 401 ||
      (outcome.status === 403 && wasAlwaysGranted(since(server, time), outcome.at))
    )
      say(`of ${user} was refused with ${outcome.status}, although a role allowed it`)
  }
  for (const { id, user, server, messages } of history.watches) {
    if (user === undefined) continue
    const wrong = messages.find(
      ({ at, type }) => type !== 'ERROR' && !wasGranted(since(server, { from: at, to: at }), at),
    )
    if (wrong !== undefined)
      found.push({
        judge,
        at: wrong.at,
        message: `watch ${id} of ${user} sent ${wrong.type}, although no role allowed it`,
      })
  }
  return found
}

/** Returns the times in which the reader's role and binding existed. */
function grantsOf(history: History): { from: number; to: number }[] {
  const truth = new Truth(history)
  const changes = [roles, bindings]
    .flatMap(resource => truth.of(titleOf(resource), undefined, reader))
    .toSorted((a, b) => a.revision - b.revision)
  const existing = new Set<string>()
  const grants: { from: number; to: number }[] = []
  let from: number | undefined
  for (const { resource, object, at } of changes) {
    if (object === undefined) existing.delete(resource)
    else existing.add(resource)
    if (existing.size === 2) from ??= at
    else if (from !== undefined) {
      grants.push({ from, to: at })
      from = undefined
    }
  }
  if (from !== undefined) grants.push({ from, to: Number.POSITIVE_INFINITY })
  return grants
}
