import { call } from './call.ts'
import type { Target } from './target.ts'
import { neighbourhood } from './witness.ts'

/**
 * A server's memory and descriptors at rest.
 *
 * The resident set is not a fair measure of memory: V8 collects garbage when it needs room or has been idle for half a
 * minute, and the allocator keeps free pages. Heap in use has the same flaw until a collection. So the measure is the
 * minimum of several readings between writes that make V8 collect.
 */
export interface Holding {
  /** Bytes of the old space, of large objects and outside the heap. The new space varies with each scrape. */
  readonly memory: number
  /** Bytes; for information. */
  readonly resident: number
  readonly descriptors: number
}

/** Reads `/metrics`. @throws Error if there is no usable response */
export async function holdingOf(target: Target): Promise<Holding> {
  const signal = AbortSignal.timeout(30_000)
  const { status, text } = await call(target, { path: '/metrics', as: 'neighbour', signal })
  if (status !== 200) throw new Error(`/metrics responded with ${status} ${text.slice(0, 200)}`)
  const figure = (series: string) => {
    const line = text.split('\n').find(line => line.startsWith(`${series} `))
    if (line === undefined) throw new Error(`/metrics has no ${series}`)
    return Number(line.slice(series.length + 1))
  }
  const space = (name: string) => figure(`nodejs_heap_space_size_used_bytes{space="${name}"}`)
  return {
    memory: space('old') + space('large_object') + figure('nodejs_external_memory_bytes'),
    resident: figure('process_resident_memory_bytes'),
    descriptors: figure('process_open_fds'),
  }
}

/** Returns the minimum of several readings, with writes between them that provoke garbage collection. */
export async function restingHolding(target: Target, writes: number): Promise<Holding> {
  const readings = [await holdingOf(target)]
  for (let n = 0; n < writes; n++) {
    await provokeCollection(target)
    readings.push(await holdingOf(target))
  }
  return leastOf(readings)
}

/** A dry run of a 1 MB write. V8 collects all garbage after a few dozen of them, but rarely after small ones. */
export async function provokeCollection(target: Target): Promise<void> {
  await call(target, {
    method: 'POST',
    path: `${neighbourhood.collection}?dryRun=All`,
    as: 'neighbour',
    body: largeObject,
    signal: AbortSignal.timeout(30_000),
  })
}

const largeObject = JSON.stringify({
  apiVersion: 'items.example.com/v1',
  kind: 'Item',
  metadata: { name: 'large' },
  spec: { op: 'x'.repeat(1_000_000) },
})

export function leastOf(readings: readonly Holding[]): Holding {
  const least = (of: (reading: Holding) => number) => Math.min(...readings.map(of))
  return {
    memory: least(({ memory }) => memory),
    resident: least(({ resident }) => resident),
    descriptors: least(({ descriptors }) => descriptors),
  }
}
