import { isNotFound } from '../api/errors.ts'
import { isRecord } from '../api/is-record.ts'
import { defineModel, type Model } from '../api/model.ts'
import { decodeError } from '../client/decode.ts'
import { failureFields, isServerAway } from '../client/server-away.ts'
import { type Transport, TransportError } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import type { KindSource } from './kind-source.ts'

/** Times of discovery, in ms. */
export const discoveredKindsDefaults = Object.freeze({
  /** Time between two discoveries. Kubernetes' collector uses 30 s. */
  intervalMs: 10_000,
  /** Pause after the server was away or starting. */
  retryMs: 1_000,
})

/**
 * A group name that can never exist. A starting server responds with 503 rather than 404 for unknown groups, so this
 * tells whether its list of groups is complete.
 */
const unservable = '/apis/-'

/** Provides the kinds of a remote server, by polling its discovery. */
export class DiscoveredKinds implements KindSource {
  readonly #transport: Transport
  readonly #log: Logger
  readonly #clock: Clock

  constructor(options: { readonly transport: Transport; readonly log?: Logger; readonly clock?: Clock }) {
    this.#transport = options.transport
    this.#log = options.log ?? silentLogger
    this.#clock = options.clock ?? systemClock
  }

  async *follow(signal: AbortSignal): AsyncGenerator<readonly Model[], void> {
    let known: string | undefined
    while (!signal.aborted) {
      let delayMs: number = discoveredKindsDefaults.intervalMs
      try {
        const models = await this.#discover(signal)
        const names = models.map(
          ({ apiVersion, kind, plural, scope }) => `${apiVersion}/${plural}/${kind}/${scope}`,
        )
        const now = names.sort().join(' ')
        if (now !== known) yield models
        known = now
      } catch (error) {
        if (signal.aborted) return
        const isStarting = isServerAway(error)
        this.#log[isStarting ? 'debug' : 'warn'](
          failureFields(error),
          'failed to discover the served kinds, retrying',
        )
        if (isStarting) delayMs = discoveredKindsDefaults.retryMs
      }
      await sleep(this.#clock, delayMs, signal).catch(() => {})
    }
  }

  /** @throws ApiError or TransportError if any part of discovery fails. */
  async #discover(signal: AbortSignal): Promise<Model[]> {
    const unserved = await this.#transport.request({ method: 'GET', path: unservable, signal })
    if (unserved.status !== 404) throw decodeError(unserved)
    const models = new Map<string, Model>()
    const add = async (path: string, group: string, version: string) => {
      for (const resource of arrayOf(await this.#get(path, signal), 'resources')) {
        const model = this.#modelOf(group, version, resource)
        if (model === undefined) continue
        // All versions have the same objects. The first one is the preferred one.
        const key = `${group}/${model.plural}`
        if (!models.has(key)) models.set(key, model)
      }
    }
    for (const version of await this.#coreVersions(signal)) await add(`/api/${version}`, '', version)
    for (const group of arrayOf(await this.#get('/apis', signal), 'groups')) {
      for (const each of arrayOf(group, 'versions')) {
        const [name = '', version = ''] = textOf(each, 'groupVersion').split('/')
        await add(`/apis/${name}/${version}`, name, version)
      }
    }
    return [...models.values()]
  }

  /** Returns the versions of the core group. A server without the kinds of Kubernetes has no core group. */
  async #coreVersions(signal: AbortSignal): Promise<readonly string[]> {
    try {
      return arrayOf(await this.#get('/api', signal), 'versions').map(String)
    } catch (error) {
      if (isNotFound(error)) return []
      throw error
    }
  }

  async #get(path: string, signal: AbortSignal): Promise<unknown> {
    const response = await this.#transport.request({
      method: 'GET',
      path,
      headers: { accept: 'application/json' },
      signal,
    })
    if (response.status !== 200) throw decodeError(response)
    const body: unknown = JSON.parse(response.body)
    return body
  }

  /** Returns undefined for subresources and for routes of plugins, which have no objects of their own to watch. */
  #modelOf(group: string, version: string, resource: unknown): Model | undefined {
    const plural = textOf(resource, 'name')
    // The same objects as those of the core group.
    if (group === 'events.k8s.io' && plural === 'events') return undefined
    if (plural.includes('/') || !arrayOf(resource, 'verbs').includes('watch')) return undefined
    return defineModel({
      group,
      version,
      kind: textOf(resource, 'kind'),
      singular: textOf(resource, 'singularName') || plural,
      plural,
      schema: { spec: {} },
      scope: isRecord(resource) && resource.namespaced === true ? 'Namespaced' : 'Cluster',
    })
  }
}

function arrayOf(value: unknown, field: string): readonly unknown[] {
  const found: unknown = isRecord(value) ? value[field] : undefined
  if (Array.isArray(found)) return found
  throw new TransportError(`the server's discovery has no ${field}`)
}

function textOf(value: unknown, field: string): string {
  const found = isRecord(value) ? value[field] : undefined
  if (typeof found === 'string') return found
  throw new TransportError(`the server's discovery has no ${field}`)
}
