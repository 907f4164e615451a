import { type History, titleOf, type Violation } from '../history.ts'
import { bindings, reader, roles } from '../kinds.ts'
import { Truth } from '../truth.ts'
import { tokensMs } from '../world/world.ts'
import { isFromMemory, overrun } from './restores.ts'
import { TokenTimes } from './token-times.ts'

const judge = 'access'

/**
 * Milliseconds that a server may decide by roles that have changed where it does not wait until it has caught up: the
 * longest pause or lag of a plan, and the way of a request.
 */
const behindMs = 20_000

/**
 * A caller sees only what roles allow the user whose token it sends, at that time, where a server that stood still may know
 * earlier tokens, and earlier roles for what it sends from memory. Whoever was allowed all the time is not refused. The watches of a user end with the permission
 * and with the token.
 */
export function judgeAccess(history: History): Violation[] {
  const grants = grantsOf(history)
  const wasGranted = (from: number, to: number) => grants.some(each => each.from <= to && each.to >= from)
  const wasAlwaysGranted = (from: number, to: number) =>
    grants.some(each => each.from <= from && each.to >= to)
  /** From when roles may count. A server that ran during a restore knows those from before it. */
  const since = (server: number, time: { readonly from: number; readonly to: number }) =>
    Math.min(time.from, overrun(history, { server, ...time })?.at ?? time.from) - behindMs
  const tokens = new TokenTimes(history)
  const found: Violation[] = []
  for (const call of history.calls) {
    const { id, type, at, token, server, outcome } = call
    if (outcome.type !== 'responded') continue
    const { status } = outcome
    const say = (message: string) =>
      found.push({ judge, at: outcome.at, message: `call ${id} (${type}) ${message}` })
    if (token === undefined) {
      if (status === 401) say('was refused with 401 without a token')
      continue
    }
    const time = { from: at, to: outcome.at }
    const users = tokens.usersOf(token, { from: tokens.since(server, time), to: outcome.at })
    const text = `with the token ${token} of ${[...users].map(user => user ?? 'nobody').join(', ')} got ${status}`
    if (isAllowed(status)) {
      if (!users.has(reader)) say(`${text}, although it was not the reader's`)
      else if (!wasGranted(isFromMemory(call) ? since(server, time) : at, outcome.at))
        say(`${text}, although no role allowed it`)
    } else if (status === 401) {
      if (!users.has(undefined)) say(`${text}, although it was valid`)
    } else if (status === 403 && users.size === 1 && users.has(reader)) {
      if (wasAlwaysGranted(since(server, time), outcome.at)) say(`${text}, although a role allowed it`)
    }
  }
  for (const { id, token, server, messages } of history.watches) {
    if (token === undefined) continue
    for (const { at, type } of messages) {
      if (type === 'ERROR') continue
      // A message may be under way for as long as a server may be behind.
      const from = since(server, { from: at, to: at })
      const isOfReader = tokens.usersOf(token, { from: from - tokensMs, to: at }).has(reader)
      if (isOfReader && wasGranted(from, at)) continue
      const why = isOfReader ? 'no role allowed it' : 'the token was no longer valid'
      found.push({ judge, at, message: `watch ${id} with the token ${token} sent ${type}, although ${why}` })
      break
    }
  }
  return [...found, ...judgeOpen(history, { tokens, wasGranted })]
}

/** Nobody who is not allowed has an open watch in the end. */
function judgeOpen(
  { watches, healedAt, endedAt }: History,
  {
    tokens,
    wasGranted,
  }: { readonly tokens: TokenTimes; readonly wasGranted: (from: number, to: number) => boolean },
): Violation[] {
  // Where the end is not that of the run, nothing has to be done yet.
  if (healedAt > endedAt) return []
  return watches.flatMap(({ id, token, at, end }) => {
    const time = { from: healedAt - tokensMs, to: endedAt }
    if (token === undefined || end !== undefined || at > healedAt) return []
    if (tokens.usersOf(token, time).has(reader) && wasGranted(time.from, time.to)) return []
    return [{ judge, at: endedAt, message: `watch ${id} with the token ${token} is still open` }]
  })
}

/** Other refusals come after the check of permissions. */
function isAllowed(status: number): boolean {
  return status < 500 && status !== 401 && status !== 403 && status !== 429
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
