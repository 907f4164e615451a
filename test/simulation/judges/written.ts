import type { Fields } from '../../support/json.ts'
import type {
  Call,
  Commit,
  History,
  Message,
  Outcome,
  Selection,
  WatchRecord,
  WriteRequest,
} from '../history.ts'
import { gadgets, parts, reader } from '../kinds.ts'

/** Parts of histories written by hand: objects are `gadgets` without a namespace, or `parts` in `default`. */

interface Content {
  readonly spec?: Fields
  readonly mark?: string
  readonly color?: string
  readonly uid?: string
  readonly generation?: number
  readonly deleting?: boolean
  readonly finalizers?: readonly string[]
  readonly owner?: { readonly name: string; readonly uid: string }
}

export function objectAt(revision: number, name: string, content: Content = {}): Fields {
  const { spec = {}, mark, color, uid = `uid-${name}`, generation = 1, deleting, finalizers, owner } = content
  const text = String(revision)
  return {
    apiVersion: 'sim.example.com/v1',
    kind: name.startsWith('p') ? 'Part' : 'Gadget',
    metadata: {
      name,
      ...(name.startsWith('p') && { namespace: 'default' }),
      version: text,
      resourceVersion: text,
      uid,
      generation,
      creationTimestamp: 'then',
      ...(deleting && { deletionTimestamp: 'later' }),
      ...(finalizers && { finalizers }),
      ...(owner && { ownerReferences: [owner] }),
      ...(color && { labels: { 'sim.example.com/color': color } }),
      ...(mark && { annotations: { mark } }),
    },
    spec,
  }
}

/** A change of a restore. */
export function restored(...args: Parameters<typeof commit>): Commit {
  return { ...commit(...args), isRestored: true }
}

/** A change at the time that is ten times its revision. */
export function commit(revision: number, name: string, content: Content | 'deleted' = {}): Commit {
  const isPart = name.startsWith('p')
  return {
    revision,
    at: revision * 10,
    resource: isPart ? 'sim.example.com/parts' : 'sim.example.com/gadgets',
    namespace: isPart ? 'default' : undefined,
    name,
    object: content === 'deleted' ? undefined : objectAt(revision, name, content),
  }
}

let lastId = 0

function start(at: number, name = 'g') {
  return { id: ++lastId, client: 0, server: 0, at, resource: name.startsWith('p') ? parts : gadgets }
}

export function write(
  [from, outcome]: readonly [number, Outcome],
  verb: WriteRequest['verb'],
  name: string,
  rest: Partial<WriteRequest> = {},
): Call {
  const namespace = name.startsWith('p') ? 'default' : undefined
  return { type: 'write', ...start(from, name), request: { verb, namespace, name, ...rest }, outcome }
}

export function get([from, outcome]: readonly [number, Outcome], name: string, stale = false): Call {
  return { type: 'get', ...start(from), namespace: undefined, name, stale, outcome }
}

export function list([from, outcome]: readonly [number, Outcome], selection: Selection = {}) {
  return { type: 'list' as const, ...start(from), selection, stale: false, outcome }
}

/** Pages of one list. */
export function pages(...outcomes: readonly (readonly [number, Outcome, number])[]): Call[] {
  const first = lastId + 1
  return outcomes.map(([from, outcome, offset]) => ({
    type: 'list',
    ...start(from),
    selection: {},
    stale: false,
    page: { first, offset },
    outcome,
  }))
}

export function responded(at: number, status: number, body: unknown = {}): Outcome {
  return { type: 'responded', at, status, body }
}

export function refusal(at: number, code: number, reason: string): Outcome {
  return responded(at, code, { kind: 'Status', code, reason })
}

export function listBody(revision: number, items: readonly unknown[], more?: string): Fields {
  return { metadata: { resourceVersion: String(revision), ...(more && { continue: more }) }, items }
}

export function watch(
  from: number | undefined,
  messages: readonly Message[],
  rest: Partial<WatchRecord> = {},
): WatchRecord {
  const { client, server, at, resource, id } = start(0)
  return { id, watcher: `w${id}`, client, server, at, resource, selection: {}, from, messages, ...rest }
}

export function message(at: number, type: string, object: unknown): Message {
  return { at, type, object }
}

export function bookmark(at: number, revision: number, isFirst = false): Message {
  const annotations = isFirst ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}
  return message(at, 'BOOKMARK', { metadata: { resourceVersion: String(revision), ...annotations } })
}

export function history(parts: Partial<History>): History {
  const changes = {
    commits: [],
    records: [],
    definitionEnds: [],
    served: [],
    lastRelease: 0,
    isCalm: false,
    compactions: [],
    leases: [],
    leaderWrites: [],
    restores: [],
    starts: [],
  }
  const access = { tokens: [{ at: 0, tokens: [{ token: reader, user: reader }] }], pauses: [] }
  return { calls: [], watches: [], ...changes, ...access, healedAt: 10_000, endedAt: 10_000, ...parts }
}
