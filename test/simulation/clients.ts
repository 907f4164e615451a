import { type Fields, isFields } from '../support/json.ts'
import type { CallOf, Outcome, Resource, Selection, WriteRequest } from './history.ts'
import { annotationsOf, contentOf, namespaceIn, pathOf, resourceOf } from './kinds.ts'
import type { CallLog } from './log.ts'
import { metadataOf, nameOf, namespaceOf, versionOf } from './objects.ts'
import type { Action } from './plan.ts'
import { asFirst, removedAsFirst, specIn } from './versions.ts'
import { Watchers } from './watchers.ts'
import { ConnectionLost, type World, type WorldRequest } from './world/world.ts'

/** Carries out the steps of clients, and records what came of them. Each client remembers the objects that it saw. */
export class Clients {
  readonly #world: World
  readonly #log: CallLog
  readonly #watchers: Watchers
  /** By client and object. */
  readonly #seen = new Map<string, Fields>()
  /** The version of the last list, by client and kind. */
  readonly #listed = new Map<string, number>()
  /** The gadgets that any client saw last, by name. */
  readonly #newest = new Map<string, Fields>()

  constructor(world: World, log: CallLog, servers: number) {
    this.#world = world
    this.#log = log
    this.#watchers = new Watchers(world, log, servers)
  }

  /** Resolves when the step is over. Steps of one client may overlap. */
  async play(client: number, server: number, action: Action): Promise<void> {
    const place = { client, server }
    switch (action.do) {
      case 'watch':
        return await this.#watchers.start(place, action)
      case 'unwatch':
        return this.#watchers.stop(action.watcher)
      case 'get':
        return await this.#get(place, action)
      case 'list':
        return await this.#list(place, action)
      default:
        return await this.#write(place, action)
    }
  }

  close(): void {
    this.#watchers.close()
  }

  async #get(
    { client, server }: Place,
    { namespace: given, name, stale, token, ...kind }: Extract<Action, { do: 'get' }>,
  ) {
    const resource = resourceOf(kind)
    const namespace = namespaceIn({ of: kind.of, namespace: given })
    const call = {
      type: 'get',
      ...this.#start({ client, server }, resource, token),
      namespace,
      name,
      stale,
    } as const
    const path = `${pathOf(resource, namespace, name)}${stale ? '?resourceVersion=0' : ''}`
    this.#remember(
      client,
      resource,
      await this.#send(call, { method: 'GET', path, headers: headersOf(token) }),
    )
  }

  /** Follows the pages to the end. */
  async #list(
    place: Place,
    { selection, limit, pauseMs, exact: isExact, stale, token, ...kind }: Extract<Action, { do: 'list' }>,
  ) {
    const resource = resourceOf(kind)
    const listed = `${place.client}/${kind.of}`
    const exact = isExact ? this.#listed.get(listed) : undefined
    let next: unknown
    let page: { first: number; offset: number } | undefined
    do {
      const start = this.#start(place, resource, token)
      if (limit !== undefined) page ??= { first: start.id, offset: 0 }
      const query = queryOf(selection)
      if (limit !== undefined) query.set('limit', String(limit))
      if (typeof next === 'string') query.set('continue', next)
      else if (exact !== undefined) {
        query.set('resourceVersion', String(exact))
        query.set('resourceVersionMatch', 'Exact')
      } else if (stale) query.set('resourceVersion', '0')
      const call = {
        type: 'list',
        ...start,
        selection,
        stale: stale || exact !== undefined,
        exact,
        page,
      } as const
      const path = `${pathOf(resource, selection.namespace)}?${query}`
      const body = await this.#send(call, { method: 'GET', path, headers: headersOf(token) })
      if (body !== undefined) this.#listed.set(listed, versionOf(body))
      const items = isFields(body) && Array.isArray(body.items) ? body.items : []
      for (const item of items) this.#remember(place.client, resource, item)
      if (page !== undefined) page = { ...page, offset: page.offset + items.length }
      next = metadataOf(body).continue
      if (next !== undefined && pauseMs !== undefined) await this.#world.sleep(pauseMs)
    } while (next !== undefined)
  }

  async #write(place: Place, action: WriteAction) {
    const resource = resourceOf(action)
    const start = this.#start(place, resource)
    const namespace = namespaceIn(action)
    const known = this.#seen.get(this.#idOf(place.client, resource, namespace, action.name))
    const owners = action.do === 'create' ? (action.owners ?? []) : []
    // An owner in another namespace would count as gone.
    const owned = owners
      .map(name => this.#newest.get(name))
      .filter(owner => owner !== undefined)
      .filter(owner => [undefined, namespace].includes(namespaceOf(owner)))
    const mark = !resource.group.endsWith('.example.com') ? undefined : `m${start.id}`
    const written = writeOf(action, { resource, known, owners: owned, mark })
    const body = await this.#send({ type: 'write', ...start, request: written.request }, written.http)
    this.#remember(place.client, resource, body)
  }

  #start({ client, server }: Place, resource: Resource, token?: string) {
    return { id: this.#log.nextId(), client, server, at: this.#world.now(), resource, token }
  }

  /** Returns the body of a success. */
  async #send(call: CallOf, http: WorldRequest): Promise<unknown> {
    const end = this.#log.begin(call)
    const name = `client-${call.client}`
    this.#world.trace(
      `${name} call ${call.id}: ${http.method} ${http.path} ${JSON.stringify(http.body) ?? ''}`,
    )
    const outcome = await this.#outcomeOf(name, call, http)
    end(outcome)
    this.#world.trace(`${name} call ${call.id}: ${textOf(outcome)}`)
    return outcome.type === 'responded' && outcome.status < 300 ? outcome.body : undefined
  }

  async #outcomeOf(client: string, call: CallOf, http: WorldRequest): Promise<Outcome> {
    try {
      const { status, body } = await this.#world.request(client, call.server, http)
      const isRemoval =
        call.type === 'write' && (call.request.verb === 'delete' || call.request.verb === 'finalize')
      const shown = isRemoval ? removedAsFirst(call.resource, body) : asFirst(call.resource, body)
      return { type: 'responded', at: this.#world.now(), status, body: shown }
    } catch (error) {
      if (error instanceof ConnectionLost) return { type: 'unknown', at: this.#world.now() }
      throw error
    }
  }

  #remember(client: number, resource: Resource, object: unknown): void {
    if (!isFields(object) || Number.isNaN(versionOf(object))) return
    this.#seen.set(this.#idOf(client, resource, namespaceOf(object), nameOf(object)), object)
    if (resource.plural === 'gadgets' || resource.plural === 'gears') this.#newest.set(nameOf(object), object)
  }

  #idOf(client: number, { plural }: Resource, namespace: string | undefined, name: string): string {
    return `${client}/${plural}/${namespace ?? ''}/${name}`
  }
}

interface Place {
  readonly client: number
  readonly server: number
}

type WriteAction = Exclude<Action, { do: 'watch' | 'unwatch' | 'get' | 'list' }>

interface WriteContext {
  readonly resource: Resource
  /** The object as the client knows it. */
  readonly known: Fields | undefined
  readonly owners: readonly Fields[]
  readonly mark: string | undefined
}

function writeOf(
  action: WriteAction,
  { resource, known, owners, mark }: WriteContext,
): { request: WriteRequest; http: WorldRequest } {
  const { name } = action
  const namespace = namespaceIn(action)
  const path = pathOf(resource, namespace, name)
  const base = { namespace, name, mark }
  const type = {
    apiVersion: resource.group === '' ? 'v1' : `${resource.group}/${resource.version}`,
    kind: resource.kind,
  }
  switch (action.do) {
    case 'create': {
      const { spec, color, finalizers } = action
      const metadata = { name, ...marked(color, mark), ...(finalizers && { finalizers }), ...ownedBy(owners) }
      if (mark === undefined)
        return {
          request: { verb: 'create', ...base },
          http: {
            method: 'POST',
            path: pathOf(resource, namespace),
            body: { ...type, metadata: { name }, ...contentOf(resource) },
          },
        }
      return {
        request: { verb: 'create', ...base, spec },
        http: {
          method: 'POST',
          path: pathOf(resource, namespace),
          body: { ...type, metadata, spec: specIn(resource, spec) },
        },
      }
    }
    case 'update': {
      const { spec, color } = action
      const version = action.versioned ? versionAsked(known) : undefined
      const { version: _, resourceVersion: __, ...kept } = action.knows ? metadataOf(known) : {}
      const metadata = { ...kept, name, ...marked(color, mark), ...versionField(version) }
      return {
        // The uid in a body is a precondition.
        request: { verb: 'update', ...base, spec, version, uid: uidIn(kept) },
        http: { method: 'PUT', path, body: { ...type, metadata, spec: specIn(resource, spec) } },
      }
    }
    case 'merge': {
      const { spec, color } = action
      const version = action.versioned ? versionAsked(known) : undefined
      const metadata = { ...marked(color, mark), ...versionField(version) }
      const headers = { 'content-type': 'application/merge-patch+json' }
      return {
        request: { verb: 'merge', ...base, spec, version },
        http: { method: 'PATCH', path, headers, body: { metadata, spec: specIn(resource, spec) } },
      }
    }
    case 'apply': {
      const { spec, color, force } = action
      const headers = { 'content-type': 'application/apply-patch+yaml' }
      return {
        request: { verb: 'apply', ...base, spec },
        http: {
          method: 'PATCH',
          path: `${path}?fieldManager=${color}&force=${force}`,
          headers,
          body: { ...type, metadata: { name, ...marked(color, mark) }, spec: specIn(resource, spec) },
        },
      }
    }
    case 'finalize': {
      const headers = { 'content-type': 'application/merge-patch+json' }
      return {
        request: { verb: 'finalize', ...base, mark: undefined },
        http: { method: 'PATCH', path, headers, body: { metadata: { finalizers: null } } },
      }
    }
    case 'index': {
      const headers = { 'content-type': 'application/merge-patch+json' }
      const metadata = { annotations: annotationsOf(action.unique) }
      return {
        request: { verb: 'merge', ...base },
        http: { method: 'PATCH', path, headers, body: { metadata } },
      }
    }
    case 'delete': {
      const version = action.precondition === 'version' ? versionAsked(known) : undefined
      const uid = action.precondition === 'uid' ? uidIn(metadataOf(known)) : undefined
      const preconditions = { ...(uid && { uid }), ...versionField(version) }
      const { propagation } = action
      const body = { preconditions, ...(propagation && { propagationPolicy: propagation }) }
      return {
        request: { verb: 'delete', ...base, mark: undefined, version, uid },
        http: { method: 'DELETE', path, body },
      }
    }
  }
}

function marked(color: string, mark: string | undefined) {
  return { labels: { 'sim.example.com/color': color }, ...(mark !== undefined && { annotations: { mark } }) }
}

function ownedBy(owners: readonly Fields[]) {
  if (owners.length === 0) return {}
  const ownerReferences = owners.map(owner => {
    const { name, uid } = metadataOf(owner)
    return { apiVersion: owner.apiVersion, kind: owner.kind, name, uid }
  })
  return { ownerReferences }
}

function versionAsked(known: Fields | undefined): number | undefined {
  return known === undefined ? undefined : versionOf(known)
}

function versionField(version: number | undefined) {
  return version === undefined ? {} : { resourceVersion: String(version) }
}

function uidIn(metadata: Fields): string | undefined {
  return typeof metadata.uid === 'string' ? metadata.uid : undefined
}

export function headersOf(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

export function queryOf({ color, size }: Selection): URLSearchParams {
  const query = new URLSearchParams()
  if (color !== undefined) query.set('labelSelector', `sim.example.com/color=${color}`)
  if (size !== undefined) query.set('fieldSelector', `spec.size=${size}`)
  return query
}

function textOf(outcome: Outcome): string {
  if (outcome.type !== 'responded') return outcome.type
  return `${outcome.status} ${(JSON.stringify(outcome.body) ?? '').slice(0, 400)}`
}
