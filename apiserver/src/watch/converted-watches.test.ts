import type { WatchEvent } from '@setpoint/controller-runtime'
import { selectsEverything } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openRooms, type Rooms, thing } from '../../../test/support/rooms.ts'
import type { Entry, ModelCache } from '../cache/index.ts'
import { type BareObject, ConversionNeeded, type Converter, decodeWire } from '../model/index.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { lines } from './codec.ts'
import { ModelWatches } from './model-watches.ts'
import type { WatchSink } from './subscription.ts'

/** Makes the objects of a cache wait for their conversion until the test responds, but for those named `quick`. */
class SlowConversions implements Converter {
  /** Each request that waits. */
  readonly waiting: (() => void)[] = []
  readonly #converted = new Set<Entry>()
  readonly #entries = new WeakMap<BareObject, Entry>()

  constructor(cache: ModelCache) {
    const bytesOf = cache.bytesOf.bind(cache)
    cache.bytesOf = (entry, version) => {
      if (entry.name === 'quick' || this.#converted.has(entry)) return bytesOf(entry, version)
      const object = decodeWire(entry.bytes)
      this.#entries.set(object, entry)
      throw new ConversionNeeded(this, object, 'test.example.com/v2')
    }
  }

  convert(object: BareObject): BareObject {
    return object
  }

  prepare: Converter['prepare'] = conversions =>
    new Promise(resolve => {
      this.waiting.push(() => {
        for (const { object } of conversions) {
          const entry = this.#entries.get(object)
          if (entry !== undefined) this.#converted.add(entry)
        }
        resolve(() => {})
      })
    })
}

/** A client that reads everything. */
class Client implements WatchSink {
  readonly codec = lines
  readonly backlog = 0
  readonly events: WatchEvent[] = []

  write(bytes: Buffer): void {
    for (const text of bytes.toString().split('\n').slice(0, -1)) this.events.push(JSON.parse(text))
  }
  end(): void {}

  /** The versions of the changes, and the objects after all events. */
  seen() {
    const objects = new Map<string, string>()
    const versions: number[] = []
    let isInitial = true
    for (const event of this.events) {
      if (event.type === 'ERROR') throw new Error(JSON.stringify(event.object))
      if (event.type === 'BOOKMARK') {
        isInitial = false
        continue
      }
      const { name = '', version = '' } = event.object.metadata
      if (event.type === 'DELETED') objects.delete(name)
      else objects.set(name, version)
      if (!isInitial) versions.push(Number(version))
    }
    return { versions, objects }
  }
}

type Step = 'watch' | 'respond' | 'pause' | 'a' | 'b' | 'c'

async function settle({ gate }: Rooms): Promise<void> {
  await gate.pass()
  // Watches take turns of some turns of the event loop.
  for (let turn = 0; turn < 40; turn++) await new Promise(resolve => setImmediate(resolve))
}

it('a watch gets each change once and in order, however long conversions take', async () => {
  await using rooms = await openRooms()
  const { registry, served, cache } = rooms
  const slow = new SlowConversions(cache)
  const versions: number[] = []
  let writes = 0
  /** Creates an object, changes it, or deletes it now and then. */
  const write = async (name: string) => {
    const isDeletion = ++writes % 5 === 0
    const document = { spec: { tags: [String(writes)] } }
    if (cache.store.get(name) === undefined) await registry.create(served, thing(name), options)
    else if (isDeletion) await registry.delete(served, name, {}, options)
    else await registry.patch(served, name, { type: 'merge', document }, 'object', options)
  }
  cache.observe({ changed: ({ revision }) => versions.push(revision), reset: () => {} })
  const step = fc.constantFrom<Step>('watch', 'respond', 'pause', 'a', 'a', 'b', 'b', 'c')
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async steps => {
      const watches = new ModelWatches(cache, { open: 0, sent: 0, tooSlow: 0 })
      const clients: { readonly client: Client; readonly after: number }[] = []
      for (const each of steps) {
        if (each === 'watch') {
          const client = new Client()
          const present = await rooms.gate.pass()
          const request = { key: undefined, selector: selectsEverything, after: undefined }
          const how = { initialEvents: true, bookmarks: true, lifetimeMs: 60_000 }
          watches.add({ request: { ...request, ...how }, sink: client, present }).pump()
          clients.push({ client, after: versions.length })
        } else if (each === 'respond') slow.waiting.shift()?.()
        else if (each === 'pause') await settle(rooms)
        else {
          // Often in one turn of the event loop.
          await Promise.all([write('quick'), write(each)])
          await rooms.gate.pass()
        }
      }
      await settle(rooms)
      while (slow.waiting.length > 0) {
        slow.waiting.shift()?.()
        await settle(rooms)
      }
      const state = new Map<string, string>()
      cache.store.snapshot().objects.forEachValue(({ name, revision }: Entry) => {
        state.set(name, String(revision))
      })
      for (const { client, after } of clients) {
        const seen = client.seen()
        expect(seen.versions).toEqual(versions.slice(after))
        expect(seen.objects).toEqual(state)
      }
      for (const subscription of [...watches.subscriptions]) subscription.end({ code: 1000, reason: '' })
      watches.stop()
    }),
    { numRuns: 60 },
  )
})
