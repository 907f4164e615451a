import { silentLogger } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { arrayOf, fieldsOf, textOf } from '../../../../test/support/json.ts'
import { type BareObject, ConversionError, ConversionNeeded, converting } from '../../model/index.ts'
import type { WebhookTarget } from '../webhooks/index.ts'
import { ConversionMemory } from './conversion-memory.ts'
import { converterDefaults, WebhookConverter } from './webhook-converter.ts'

const url = new URL('https://hook.example.com')
const target: WebhookTarget = {
  ...{ url, endpoint: url, caBundle: undefined, serviceName: undefined, isTrusted: false },
}

function object(name: string, spec: unknown = {}): BareObject {
  const metadata = { name, uid: name, creationTimestamp: '2024-01-01T00:00:00.000Z' }
  return { apiVersion: 'g.example.com/v1', kind: 'Thing', metadata, spec }
}

interface Options {
  /** Refuses requests with an object of this name. */
  readonly refused?: (name: string) => boolean
  readonly memory?: ConversionMemory
  /** Waits for this before it responds. */
  readonly until?: Promise<void>
  /** The number of requests after which it cannot be reached. */
  readonly most?: number
}

/** A converter with a webhook that only changes the version. `requests` are the names in each request. */
function converterWith({
  refused = () => false,
  memory = new ConversionMemory(),
  until,
  most = Infinity,
}: Options = {}) {
  const requests: string[][] = []
  const post = async (_target: WebhookTarget, body: unknown) => {
    const { request } = fieldsOf(body)
    const { uid, desiredAPIVersion, objects } = fieldsOf(request)
    const all = arrayOf(objects).map(fieldsOf)
    const names = all.map(({ metadata }) => textOf(fieldsOf(metadata).name))
    requests.push(names)
    for (const { metadata } of all) expect(Object.values(fieldsOf(metadata))).not.toContain('')
    await until
    if (requests.length > most) throw new Error('connection refused')
    const result = names.some(refused) ? { status: 'Failure', message: 'refused' } : { status: 'Success' }
    const convertedObjects = all.map(each => ({ ...each, apiVersion: desiredAPIVersion }))
    const review = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview' }
    return { ...review, response: { uid, result, convertedObjects } }
  }
  const parts = { client: { post }, memory, log: silentLogger }
  const definition = {
    name: 'things',
    id: 'a',
    target: () => target,
    reviewVersions: ['v2', 'v1', 'v1beta1'],
  }
  return { converter: new WebhookConverter(definition, parts), requests }
}

const to = 'g.example.com/v2'
const named = (count: number) => Array.from({ length: count }, (_, n) => ({ object: object(`o${n}`), to }))

it('a conversion is not known before it was asked for, and then remembered', async () => {
  const { converter, requests } = converterWith()
  expect(() => converter.convert(object('a'), to)).toThrow(ConversionNeeded)
  const converted = await converting(() => converter.convert(object('a', { n: 1 }), to))
  expect(converted).toEqual({ ...object('a', { n: 1 }), apiVersion: to })
  expect(converter.convert(object('a', { n: 1 }), to)).toEqual(converted)
  expect(() => converter.convert(object('a', { n: 2 }), to)).toThrow(ConversionNeeded)
  expect(converter.convert(object('a'), 'g.example.com/v1')).toEqual(object('a'))
  expect(requests).toEqual([['a']])
})

it('an object that is not created yet is converted without a time and a uid', async () => {
  const { converter } = converterWith()
  const metadata = { name: 'a', uid: '', creationTimestamp: '' }
  const draft: BareObject = { ...object('a'), metadata }
  const converted = await converting(() => converter.convert(draft, to))
  expect(converted).toEqual({ ...draft, apiVersion: to })
})

it('a failure is known to those who asked, and to nobody later', async () => {
  const { converter, requests } = converterWith({ refused: () => true })
  const release = await converter.prepare([{ object: object('a'), to }])
  expect(() => converter.convert(object('a'), to)).toThrow(
    'conversion webhook for g.example.com/v1, Kind=Thing failed: refused',
  )
  release()
  expect(() => converter.convert(object('a'), to)).toThrow(ConversionNeeded)
  await expect(converting(() => converter.convert(object('a'), to))).rejects.toThrow('failed: refused')
  expect(requests).toHaveLength(2)
})

it('those who need the same conversion at the same time share a request, although one of them leaves', async () => {
  let respond = () => {}
  const until = new Promise<void>(resolve => {
    respond = resolve
  })
  const { converter, requests } = converterWith({ until })
  const gone = new AbortController()
  const left = converter.prepare(named(2), gone.signal)
  const staying = converter.prepare(named(3))
  gone.abort()
  await expect(left).rejects.toThrow()
  respond()
  await staying
  for (const each of named(3)) converter.convert(each.object, to)
  expect(requests).toEqual([['o0', 'o1'], ['o2']])
})

it('many objects are converted in few requests, which are bounded in objects and bytes', async () => {
  const { converter, requests } = converterWith()
  const { objects, bytes } = converterDefaults
  await converter.prepare(named(2 * objects + 1))
  expect(requests.map(names => names.length)).toEqual([objects, objects, 1])
  requests.length = 0
  const large = { text: 'x'.repeat(bytes / 2) }
  await converter.prepare([
    { object: object('a', large), to },
    { object: object('b', large), to },
    { object: object('c', { text: 'x'.repeat(2 * bytes) }), to },
  ])
  expect(requests).toEqual([['a'], ['b'], ['c']])
})

it('an object that is refused does not keep the others of a request from it', async () => {
  const { converter, requests } = converterWith({ refused: name => name === 'o17' })
  await converter.prepare(named(100))
  const failed = named(100).filter(({ object }) => {
    try {
      converter.convert(object, to)
      return false
    } catch {
      return true
    }
  })
  expect(failed.map(({ object }) => object.metadata.name)).toEqual(['o17'])
  expect(requests.length).toBeLessThan(20)
})

it('a webhook that fails in the middle makes the others fail, and no object becomes another', async () => {
  const count = converterDefaults.objects + 1
  for (let most = 0; most < 12; most++) {
    const { converter, requests } = converterWith({ refused: name => name === 'o7', most })
    const release = await converter.prepare(named(count))
    for (const { object } of named(count)) {
      try {
        expect(converter.convert(object, to)).toEqual({ ...object, apiVersion: to })
      } catch (error) {
        expect(error).toBeInstanceOf(ConversionError)
      }
    }
    const last = named(count).at(-1)?.object ?? object('none')
    expect(() => converter.convert(last, to)).toThrow('connection refused')
    release()
    expect(requests.length).toBe(most + 1)
  }
})

it('a webhook that refuses everything is not asked without end', async () => {
  const { converter, requests } = converterWith({ refused: () => true })
  await converter.prepare(named(500))
  expect(() => converter.convert(object('o499'), to)).toThrow('refused')
  expect(requests.length).toBeLessThanOrEqual(2 * converterDefaults.requests)
})

it('what is held is known although the memory has no room for it', async () => {
  const { converter } = converterWith({ memory: new ConversionMemory(0) })
  const release = await converter.prepare(named(3))
  for (const each of named(3)) converter.convert(each.object, to)
  release()
  expect(() => converter.convert(object('o0'), to)).toThrow(ConversionNeeded)
})

it('the least recently used results are forgotten', async () => {
  const [first] = named(1)
  if (first === undefined) throw new Error('no object')
  const { converter, requests } = converterWith({ memory: new ConversionMemory(2_000) })
  for (const each of named(20)) {
    await converting(() => converter.convert(each.object, to))
    await converting(() => converter.convert(first.object, to))
  }
  expect(requests).toHaveLength(20)
  expect(() => converter.convert(object('o1'), to)).toThrow(ConversionNeeded)
})
