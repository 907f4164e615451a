import { collection, itemJson, lanes, rounds } from './items.ts'
import { type Program, processorMicros, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import type { Row } from './table.ts'

/** Requests of each kind in a round. */
const count = 4000
/** Definitions that are established one after another. */
const definitions = 300
const text = 'x'.repeat(200)

const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const group = 'defined.bench.example.com'
/** The kind of the benchmark's plugin, as a definition. */
const defined = `/apis/${group}/v1/items`

/**
 * The kind of a definition against the same kind of a plugin, in the same server and on the same embedded store; and
 * the processor time that a definition takes until it is established.
 */
export async function definedKinds(): Promise<Row[]> {
  await using setpoint = await startSetpoint([])
  await define(setpoint, 'items', 'Item')
  const requests = ['creates', 'GETs', 'lists of 20', 'merge patches'] as const
  const rates = requests.map(name => ({ name, ours: [] as number[], peer: [] as number[] }))
  for (let round = -1; round < rounds; round++) {
    for (const { name, ours, peer } of rates) {
      const rateOf = (path: string) =>
        load(
          setpoint.url,
          lanes,
          count,
          n => request(name, setpoint.url, path, round, n),
          name === 'creates' ? 201 : 200,
        )
      // Who goes first changes from round to round.
      const isFirst = round % 2 === 0
      const before = isFirst ? await rateOf(defined) : undefined
      const bare = await rateOf(collection)
      const after = before ?? (await rateOf(defined))
      if (round < 0) continue
      ours.push(after)
      peer.push(bare)
    }
  }
  return [
    ...rates.map(({ name, ours, peer }) => ({
      name: `${name} of a definition's kind, ${lanes} in flight, compared with the same kind of a plugin`,
      unit: '1/s',
      ours,
      peer,
      aim: { atLeast: 0.95 },
    })),
    await establishment(),
  ]
}

/** The processor time of a definition among 300, compared with that of the first. */
async function establishment(): Promise<Row> {
  const ours: number[] = []
  const peer: number[] = []
  for (let round = 0; round < 3; round++) {
    await using setpoint = await startSetpoint([])
    const timed = async (work: () => Promise<void>) => {
      const before = await processorMicros(setpoint.pid)
      await work()
      return (await processorMicros(setpoint.pid)) - before
    }
    peer.push(await timed(() => define(setpoint, 'first', 'First')))
    const all = await timed(async () => {
      for (let n = 0; n < definitions; n++) await define(setpoint, `kind${n}s`, `Kind${n}`)
    })
    ours.push(all / definitions)
  }
  return {
    name: `processor time of one of ${definitions} definitions until its kind is served, compared with that of the first`,
    unit: 'µs',
    ours,
    peer,
    aim: { atMost: 1 },
  }
}

function request(
  name: 'creates' | 'GETs' | 'lists of 20' | 'merge patches',
  url: URL,
  path: string,
  round: number,
  n: number,
): string {
  const object = `r${round + 1}-${n}`
  switch (name) {
    case 'creates': {
      const body = itemJson(object, n, text)
      return rawRequest(
        'POST',
        url,
        path,
        path === defined ? body.replace('bench.example.com/v1', `${group}/v1`) : body,
      )
    }
    case 'GETs':
      return rawRequest('GET', url, `${path}/${object}`)
    case 'lists of 20':
      return rawRequest('GET', url, `${path}?limit=20`)
    case 'merge patches': {
      const patch = JSON.stringify({ spec: { n: n + count } })
      return rawRequest('PATCH', url, `${path}/${object}`, patch, 'application/merge-patch+json')
    }
  }
}

/** Creates a definition. The response comes when its kind is served. */
async function define({ url }: Pick<Program, 'url'>, plural: string, kind: string): Promise<void> {
  const indexes = [
    { path: '.spec.n' },
    { name: 'spec.half', path: '.spec.sentAt' },
    { path: '.spec.tags', multi: true },
  ]
  const response = await fetch(new URL(definitionsPath, url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: {
        name: `${plural}.${group}`,
        annotations: { 'setpoint.dev/indexes': JSON.stringify(indexes) },
      },
      spec: {
        group,
        scope: 'Cluster',
        names: { plural, kind },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    }),
  })
  if (response.status !== 201) throw new Error(await response.text())
}

const schema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      required: ['text'],
      properties: {
        text: { type: 'string', maxLength: 4096 },
        n: { type: 'integer', minimum: 0 },
        tags: { type: 'array', items: { type: 'string' } },
        sentAt: { type: 'string' },
      },
    },
  },
}
