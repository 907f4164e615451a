import { isFields } from '../support/json.ts'
import { headersOf, queryOf } from './clients.ts'
import type { Selection } from './history.ts'
import { pathOf, type ResourceName, resourceOf } from './kinds.ts'
import type { CallLog } from './log.ts'
import { versionOf } from './objects.ts'
import { asFirst } from './versions.ts'
import type { WatchTransport, World, WorldWatch } from './world/world.ts'

const retryDefaults = { leastMs: 300, mostMs: 3_000 } as const

/**
 * Watches that are opened again from where they were, on the next server, until they are stopped. After refusals they wait
 * longer, because each handshake takes as much work as a second of an idle world.
 */
export class Watchers {
  readonly #world: World
  readonly #log: CallLog
  /** The watchers that run, with their open watch. */
  readonly #running = new Map<string, Run>()

  readonly #servers: number

  constructor(world: World, log: CallLog, servers: number) {
    this.#world = world
    this.#log = log
    this.#servers = servers
  }

  async start(
    { client, server }: { readonly client: number; readonly server: number },
    { of, version, watcher, selection, timeoutSeconds, token, over }: WatcherOptions,
  ): Promise<void> {
    if (this.#running.has(watcher)) return
    const run: Run = { isStopped: false, isRefused: false }
    this.#running.set(watcher, run)
    let known: number | undefined
    let pauseMs: number = retryDefaults.leastMs
    for (let n = server; !run.isStopped; n++) {
      const target = { of, version, watcher, selection, timeoutSeconds, token, over }
      const place = { client, server: n % this.#servers, ...target }
      known = await this.#watch(run, place, known)
      pauseMs = run.isRefused ? Math.min(2 * pauseMs, retryDefaults.mostMs) : retryDefaults.leastMs
      await this.#world.sleep(pauseMs)
    }
  }

  stop(watcher: string): void {
    const run = this.#running.get(watcher)
    if (run === undefined) return
    run.isStopped = true
    if (run.open === undefined) run.record?.end({ at: this.#world.now(), byClient: true })
    else run.open.close()
  }

  close(): void {
    for (const watcher of this.#running.keys()) this.stop(watcher)
  }

  /** Returns the version from which the next watch resumes. Undefined if it has to begin again. */
  async #watch(run: Run, place: Place, from: number | undefined): Promise<number | undefined> {
    const { client, server, watcher, selection, timeoutSeconds, token, over } = place
    const resource = resourceOf(place)
    const query = queryOf(selection)
    query.set('watch', 'true')
    query.set('allowWatchBookmarks', 'true')
    if (timeoutSeconds !== undefined) query.set('timeoutSeconds', String(timeoutSeconds))
    if (from !== undefined) query.set('resourceVersion', String(from))
    const path = `${pathOf(resource, selection.namespace)}?${query}`
    const id = this.#log.nextId()
    const at = this.#world.now()
    const record = this.#log.open({ id, watcher, client, server, at, resource, token, selection, from })
    this.#world.trace(`client-${client} watch ${id} over ${over ?? 'socket'}: ${path}`)
    const watch = this.#world.watch(`client-${client}`, server, path, { headers: headersOf(token), over })
    run.open = watch
    run.record = record
    let known = from
    let isExpired = false
    for await (const message of watch) {
      if (!isFields(message)) continue
      const { type } = message
      const object = asFirst(resource, message.object)
      record.message({ at: this.#world.now(), type: String(type), object })
      if (type === 'ERROR') isExpired ||= isFields(object) && object.code === 410
      else if (type === 'BOOKMARK' || known !== undefined) known = versionOf(object)
    }
    run.open = undefined
    const { end } = watch
    const status = end?.type === 'refused' ? end.status : undefined
    run.isRefused = status !== undefined
    record.end({ at: this.#world.now(), byClient: run.isStopped, status })
    this.#world.trace(`client-${client} watch ${id}: ${end?.type} ${status ?? ''}, knows ${known}`)
    return isExpired || status === 410 ? undefined : known
  }
}

interface WatcherOptions {
  readonly of: ResourceName
  readonly version?: string | undefined
  readonly watcher: string
  readonly selection: Selection
  readonly timeoutSeconds?: number | undefined
  readonly token?: string | undefined
  readonly over?: WatchTransport | undefined
}

interface Run {
  isStopped: boolean
  /** Whether its last watch was refused. */
  isRefused: boolean
  open?: WorldWatch | undefined
  /** Of the last watch. */
  record?: ReturnType<CallLog['open']>
}

interface Place extends WatcherOptions {
  readonly client: number
  readonly server: number
}
