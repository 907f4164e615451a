import { isRecord } from '../api/is-record.ts'
import { defineModel, type Model } from '../api/model.ts'
import { decodeError } from '../client/decode.ts'
import { failureFields, isServerAway } from '../client/server-away.ts'
import { type Transport, TransportError } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import type { KindSource } from './kind-source.ts'

/** Numbers that discovery works with. */
export const discoveredKindsDefaults = Object.freeze({
  /** Pause between two looks at what a server serves. Kubernetes' collector takes 30 s; this asks less at once. */
  intervalMs: 10_000,
  /** Pause after a look at a server that is away or starting, which is soon over. */
  retryMs: 1_000,
})

/**
 * No group can have this name. As long as a server does not know yet what it will serve, it says 503 rather than 404
 * of what it does not know; so this says whether the list of groups is whole.
 */
const unservable = '/apis/-'

/** The kinds that a server elsewhere serves, by asking its discovery from time to time. */
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
        const names = models.map(({ apiVersion, kind, plural }) => `${apiVersion}/${plural}/${kind}`)
        const now = names.sort().join(' ')
        if (now !== known) yield models
        known = now
      } catch (error) {
        if (signal.aborted) return
        const isStarting = isServerAway(error)
        this.#log[isStarting ? 'debug' : 'warn'](
          failureFields(error),
          'what is served cannot be found out yet',
        )
        if (isStarting) delayMs = discoveredKindsDefaults.retryMs
      }
      await sleep(this.#clock, delayMs, signal).catch(() => {})
    }
  }

  /** @throws ApiError or TransportError when any part cannot be found out. */
  async #discover(signal: AbortSignal): Promise<Model[]> {
    const unserved = await this.#transport.request({ method: 'GET', path: unservable, signal })
    if (unserved.status !== 404) throw decodeError(unserved)
    const models: Model[] = []
    for (const group of arrayOf(await this.#get('/apis', signal), 'groups')) {
      for (const version of arrayOf(group, 'versions')) {
        const groupVersion = textOf(version, 'groupVersion')
        const resources = await this.#get(`/apis/${groupVersion}`, signal)
        for (const resource of arrayOf(resources, 'resources')) {
          const model = this.#modelOf(groupVersion, resource)
          if (model !== undefined) models.push(model)
        }
      }
    }
    return models
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

  /** Undefined for subresources. */
  #modelOf(groupVersion: string, resource: unknown): Model | undefined {
    const plural = textOf(resource, 'name')
    if (plural.includes('/')) return undefined
    const [group = '', version = ''] = groupVersion.split('/')
    return defineModel({
      group,
      version,
      kind: textOf(resource, 'kind'),
      singular: textOf(resource, 'singularName') || plural,
      plural,
      schema: { spec: {} },
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
