import { collection, itemJson, lanes, rounds } from './items.ts'
import { type Program, processorMicros, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import type { Row } from './table.ts'

const count = 2000
const text = 'x'.repeat(200)
const aim = { atMost: 2 }

/** Compares server-side apply with a merge patch of the same document: processor time of the server for a write. */
export async function applies(): Promise<Row[]> {
  await using setpoint = await startSetpoint([])
  return [await tracked(setpoint), await untracked(setpoint)]
}

/**
 * Objects that have been applied before. The patched ones are others, so that neither side takes fields from the other.
 */
async function tracked(setpoint: Program): Promise<Row> {
  const nameOf = (set: string) => (n: number) => `${set}${n}`
  const [applied, patched] = [nameOf('applied'), nameOf('patched')]
  for (const names of [applied, patched]) await microsOfWrite(setpoint, 'apply', names, 0, 201)
  const ours: number[] = []
  const peer: number[] = []
  for (let round = -1; round < rounds; round++) {
    const apply = await microsOfWrite(setpoint, 'apply', applied, round + 2)
    const patch = await microsOfWrite(setpoint, 'patch', patched, round + 2)
    if (round < 0) continue
    ours.push(apply)
    peer.push(patch)
  }
  return {
    name: 'server-side apply, compared with a merge patch of a tracked object',
    unit: 'µs',
    ours,
    peer,
    aim,
  }
}

/** The first apply of each object, which records the owner of all its fields too. */
async function untracked(setpoint: Program): Promise<Row> {
  const ours: number[] = []
  const peer: number[] = []
  for (let round = -1; round < rounds; round++) {
    const names = (n: number) => `r${round + 1}-${n}`
    const creates = Array.from({ length: count }, (_, n) =>
      rawRequest('POST', setpoint.url, collection, itemJson(names(n), n, text)),
    )
    await load(setpoint.url, lanes, count, n => creates[n] ?? '', 201)
    const patch = await microsOfWrite(setpoint, 'patch', names, 1)
    const apply = await microsOfWrite(setpoint, 'apply', names, 2)
    if (round < 0) continue
    ours.push(apply)
    peer.push(patch)
  }
  return {
    name: 'first server-side apply of an object, compared with a merge patch of it',
    unit: 'µs',
    ours,
    peer,
    aim,
  }
}

/** Changes one field of each object. The document is the whole object. */
async function microsOfWrite(
  { url, pid }: Program,
  how: 'apply' | 'patch',
  nameOf: (n: number) => string,
  turn: number,
  expected = 200,
): Promise<number> {
  const type = how === 'apply' ? 'application/apply-patch+yaml' : 'application/merge-patch+json'
  // The first apply takes the field from those who had it before.
  const query = how === 'apply' ? '?fieldManager=bench&force=true' : ''
  const requests = Array.from({ length: count }, (_, n) => {
    const name = nameOf(n)
    const body = itemJson(name, n + turn * count, text)
    return rawRequest('PATCH', url, `${collection}/${name}${query}`, body, type)
  })
  const begin = await processorMicros(pid)
  await load(url, lanes, count, n => requests[n] ?? '', expected)
  return ((await processorMicros(pid)) - begin) / count
}
