import { isDeepStrictEqual } from 'node:util'
import { isFields } from '../../support/json.ts'
import { type Call, type Commit, type History, titleOf, type Violation } from '../history.ts'
import { isSelected, metadataOf, nameOf, versionOf } from '../objects.ts'
import { Truth } from '../truth.ts'
import { mayLackKind } from './definitions.ts'
import { mayLackVersion } from './served.ts'

const judge = 'reads'

/**
 * A get or a list returns a state that was stored at one moment, not older than anything that a client had learnt before it
 * asked, and not younger than the response. All pages of a list are of one state. `resourceVersion=0` may be older.
 */
export function judgeReads(history: History): Violation[] {
  const truth = new Truth(history)
  return history.calls.flatMap(call => {
    const { outcome } = call
    if (call.type === 'write' || outcome.type !== 'responded') return []
    if (outcome.status === 404 && (mayLackVersion(history, call) || mayLackKind(truth, call))) return []
    const found =
      call.type === 'get' ? judgeGet(call, outcome, truth) : judgeList(call, outcome, truth, history)
    return found.map(text => ({ judge, at: call.at, message: `call ${call.id} (${call.type}) ${text}` }))
  })
}

interface Response {
  readonly at: number
  readonly status: number
  readonly body: unknown
}

function judgeGet(call: Extract<Call, { type: 'get' }>, response: Response, truth: Truth): string[] {
  const { at, status, body } = response
  const { namespace, name, stale } = call
  const object = { resource: titleOf(call.resource), namespace, name }
  // At time 0 nobody had learnt of anything.
  const time = { from: stale ? 0 : call.at, to: at }
  if (status === 404) {
    const wasAbsent = truth.wasEver(object, time, each => each?.object === undefined)
    return wasAbsent ? [] : [`did not find ${name}, which existed all the time`]
  }
  if (status !== 200) return unexpected(status, body)
  const commit = truth.at(versionOf(body))
  if (commit?.object === undefined || commit.name !== name || commit.namespace !== namespace)
    return [`returned version ${versionOf(body)} of ${name}, which never was`]
  if (!isDeepStrictEqual(commit.object, body))
    return [`returned ${JSON.stringify(body)}, but stored was ${JSON.stringify(commit.object)}`]
  if (truth.wasEver(object, time, each => each === commit)) return []
  return [
    `returned version ${commit.revision} of ${name}, which was not its state between ${call.at} and ${at}`,
  ]
}

function judgeList(
  call: Extract<Call, { type: 'list' }>,
  response: Response,
  truth: Truth,
  history: History,
): string[] {
  const { at, status, body } = response
  // A server keeps earlier states for a while, and not over a restart.
  const isEarlier = call.exact !== undefined || (call.page !== undefined && call.page.first !== call.id)
  if (status === 410 && isEarlier) return []
  if (status !== 200) return unexpected(status, body)
  const version = versionOf(body)
  const items = isFields(body) && Array.isArray(body.items) ? body.items : []
  const resource = titleOf(call.resource)
  const found: string[] = []
  const { page, exact } = call
  if (exact !== undefined && version !== exact) found.push(`returned version ${version} instead of ${exact}`)
  const first = page === undefined ? undefined : history.calls.find(({ id }) => id === page.first)
  if (first !== undefined && first !== call) {
    const expected = first.outcome.type === 'responded' ? versionOf(first.outcome.body) : Number.NaN
    if (version !== expected) found.push(`is a page of version ${version}, the first page is of ${expected}`)
  } else {
    const floor = call.stale ? 0 : truth.knownBefore(call.at)
    const missed = truth.commits.find(
      each => each.resource === resource && each.revision > version && each.revision <= floor,
    )
    if (missed !== undefined)
      found.push(`returned version ${version} without ${missed.revision}, which was known before`)
  }
  if (version > truth.committedBy(at) && truth.commits.some(({ revision }) => revision === version))
    found.push(`returned version ${version}, which was not yet committed`)
  const state = truth.stateAt(resource, version).filter(({ object }) => isSelected(object, call.selection))
  found.push(...compareItems(version, page === undefined ? state : state.slice(page.offset), items, page))
  const hasMore = metadataOf(body).continue !== undefined
  if (page !== undefined && !hasMore && page.offset + items.length < state.length)
    found.push(`ended after ${page.offset + items.length} of ${state.length} objects`)
  return found
}

function compareItems(
  version: number,
  expected: readonly Commit[],
  items: readonly unknown[],
  page: unknown,
): string[] {
  const found: string[] = []
  // The default order is by creation, which says nothing here.
  const byName = page === undefined ? undefined : expected
  const seen = new Set<Commit>()
  for (const [n, item] of items.entries()) {
    const commit =
      byName === undefined
        ? expected.find(each => each.revision === versionOf(item) && each.name === nameOf(item))
        : byName[n]
    if (commit === undefined || seen.has(commit) || !isShownAs(item, commit))
      found.push(
        `of version ${version} has ${nameOf(item)} of version ${versionOf(item)} as item ${n}, ` +
          `stored is ${commit === undefined ? 'none' : `${commit.name} of ${commit.revision}`}`,
      )
    if (commit !== undefined) seen.add(commit)
  }
  if (page !== undefined) return found
  for (const each of expected)
    if (!seen.has(each)) found.push(`of version ${version} lacks ${each.name} of version ${each.revision}`)
  return found
}

/** The items of a list of a built-in kind do not repeat the kind. */
function isShownAs(item: unknown, { object, resource }: Commit): boolean {
  if (resource.includes('.example.com/') || object === undefined) return isDeepStrictEqual(object, item)
  const { apiVersion: _apiVersion, kind: _kind, ...rest } = object
  return isDeepStrictEqual(rest, item)
}

function unexpected(status: number, body: unknown): string[] {
  if (status === 401 || status === 403 || status === 429 || status === 503 || status === 504) return []
  return [`was refused with ${status} ${JSON.stringify(body)}`]
}
