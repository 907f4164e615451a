import { ApiError } from '../../../controller-runtime/src/api/errors.ts'
import type { ObjectOf } from '../../../controller-runtime/src/api/model.ts'
import { createClient } from '../../../controller-runtime/src/client/create-client.ts'
import {
  HttpTransport,
  type HttpTransportOptions,
} from '../../../controller-runtime/src/client/http-transport.ts'
import {
  Watcher,
  type WatcherEvent,
  type WatcherOptions,
} from '../../../controller-runtime/src/watch/watcher.ts'
import { bookmark, Gadget, gadget } from './sample-models.ts'
import { type Refusal, ScriptedWatchServer, type WatchScript } from './scripted-watch-server.ts'

/** A watcher of gadgets, over a real socket, of a scripted server. */
export interface Watched extends AsyncDisposable {
  readonly server: ScriptedWatchServer
  readonly watcher: Watcher<GadgetObject>
  readonly events: GadgetEvents
  readonly abort: AbortController
}

type GadgetObject = ObjectOf<typeof Gadget>
type GadgetEvents = AsyncGenerator<WatcherEvent<GadgetObject>, void>

/** A short back-off for tests. */
const quick = { backoffBaseMs: 5, backoffMaxMs: 20 }

export async function watched(
  scripts: readonly (WatchScript | Refusal)[],
  options: WatcherOptions = {},
  transportOptions: Omit<HttpTransportOptions, 'server'> = {},
): Promise<Watched> {
  const server = await ScriptedWatchServer.start(scripts)
  const transport = new HttpTransport({ server: server.url, ...transportOptions })
  const watcher = new Watcher(createClient(transport), Gadget, { ...quick, ...options })
  const abort = new AbortController()
  return {
    server,
    watcher,
    abort,
    events: watcher.events(abort.signal),
    async [Symbol.asyncDispose]() {
      abort.abort()
      transport.close()
      await server.stop()
    },
  }
}

/** Returns the next `count` events in short form. @throws Error if the watcher ends first. */
export async function next(events: GadgetEvents, count: number): Promise<string[]> {
  const received: string[] = []
  while (received.length < count) {
    const { value, done } = await events.next()
    if (done || value === undefined) throw new Error(`the watcher ended after ${received.join(', ')}`)
    if (value.type === 'replaced') {
      received.push(
        `replaced ${value.objects.map(o => `${o.metadata.name}@${o.metadata.version}`)} v${value.version}`,
      )
    } else if (value.type === 'bookmark') received.push(`bookmark v${value.version}`)
    else received.push(`${value.type} ${value.object.metadata.name} v${value.version}`)
  }
  return received
}

export const added = (name: string, version: number) => ({ type: 'ADDED', object: gadget(name, version) })
export const modified = (name: string, version: number) => ({
  type: 'MODIFIED',
  object: gadget(name, version),
})
export const deleted = (name: string, version: number) => ({ type: 'DELETED', object: gadget(name, version) })
export const expired = { type: 'ERROR', object: new ApiError('Expired', 'too old').toStatus() }

/** Two objects; the initial events end at version 7. */
export const initial: WatchScript = watch => {
  watch.send(added('a', 5))
  watch.send(added('b', 3))
  watch.send(bookmark(7, true))
}
