import { load, rawRequest } from './raw-http.ts'

/** The kind of the benchmark's plugin, in `plugin/index.js`. */
export const collection = '/apis/bench.example.com/v1/items'

/** Requests in flight: enough to keep every process busy, as few as in a small deployment. */
export const lanes = 64

/** Number of measured rounds. One round before them warms up both sides. */
export const rounds = 5

/** Returns the body of a create. `text` sets the object's size. */
export function itemJson(name: string, n: number, text: string): string {
  return JSON.stringify({
    apiVersion: 'bench.example.com/v1',
    kind: 'Item',
    metadata: { name, labels: { 'bench.example.com/shard': `s${n % 10}` } },
    spec: { text, n, tags: [`t${n % 1000}`] },
  })
}

/** Creates items from `i0000000` on, with `textLength` characters of text each. */
export async function createItems(url: URL, count: number, textLength: number): Promise<void> {
  const text = 'x'.repeat(textLength)
  const name = (n: number) => `i${String(n).padStart(7, '0')}`
  await load(url, lanes, count, n => rawRequest('POST', url, collection, itemJson(name(n), n, text)), 201)
}
