import { expect, test } from 'vitest'
import { ApiError } from '../api/errors.ts'
import { type Transport, TransportError, type TransportResponse } from '../client/transport.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { DiscoveredKinds } from './discovered-kinds.ts'

const ok = (body: object): TransportResponse => ({ status: 200, headers: {}, body: JSON.stringify(body) })
const refused = (error: ApiError): TransportResponse => ({
  status: error.code,
  headers: {},
  body: JSON.stringify(error.toStatus()),
})
const notServed = refused(new ApiError('NotFound', 'nothing is served there'))
const unknown = refused(new ApiError('ServiceUnavailable', 'plugins are being started'))

const groups = (...names: string[]) =>
  ok({ groups: names.map(name => ({ name, versions: [{ groupVersion: `${name}/v1`, version: 'v1' }] })) })
const resources = (...plurals: string[]) =>
  ok({
    resources: plurals.flatMap(name => [
      {
        name,
        singularName: name.slice(0, -1),
        kind: name.slice(0, 1).toUpperCase() + name.slice(1, -1),
        verbs: ['get', 'watch'],
      },
      { name: `${name}/status`, singularName: '', kind: 'Status', verbs: ['get'] },
    ]),
  })

/** A server with nothing but discovery; its responses can be changed. */
function discovering(given: Record<string, TransportResponse>) {
  const answers: Record<string, TransportResponse> = { '/api': ok({ versions: [] }), ...given }
  const clock = new FakeClock()
  const transport: Transport = {
    request: async ({ path }) => {
      const answer = answers[path]
      if (answer === undefined) throw new TransportError(`no answer for ${path}`)
      return answer
    },
    watch: () => Promise.reject(new TransportError('no watches')),
  }
  const stopping = new AbortController()
  const seen: string[][] = []
  const kinds = new DiscoveredKinds({ transport, clock })
  const ended = (async () => {
    for await (const models of kinds.follow(stopping.signal))
      seen.push(
        models.map(({ apiVersion, plural, kind, scope }) => `${apiVersion} ${plural} ${kind} ${scope}`),
      )
  })()
  const stop = () => {
    stopping.abort()
    return ended
  }
  return { answers, clock, seen, stop }
}

test('yields the kinds once all are known, and again when they change', async () => {
  const world = discovering({
    '/apis/-': unknown,
    '/apis': groups('a.com'),
    '/apis/a.com/v1': resources('items'),
  })
  await world.clock.advance(60_000)
  expect(world.seen).toEqual([])
  world.answers['/apis/-'] = notServed
  await world.clock.advance(1_000)
  expect(world.seen).toEqual([['a.com/v1 items Item Cluster']])
  await world.clock.advance(60_000)
  expect(world.seen.length).toBe(1)
  world.answers['/apis'] = groups('a.com', 'b.com')
  world.answers['/apis/b.com/v1'] = resources('parts', 'things')
  await world.clock.advance(10_000)
  expect(world.seen[1]).toEqual([
    'a.com/v1 items Item Cluster',
    'b.com/v1 parts Part Cluster',
    'b.com/v1 things Thing Cluster',
  ])
  await world.stop()
})

test('a kind with several versions is followed in the preferred one', async () => {
  const versions = ['v1', 'v1beta1'].map(version => ({ groupVersion: `a.com/${version}`, version }))
  const world = discovering({
    '/apis/-': notServed,
    '/apis': ok({ groups: [{ name: 'a.com', versions }] }),
    '/apis/a.com/v1': resources('items'),
    '/apis/a.com/v1beta1': resources('items', 'parts'),
  })
  await world.clock.advance(0)
  expect(world.seen).toEqual([['a.com/v1 items Item Cluster', 'a.com/v1beta1 parts Part Cluster']])
  await world.stop()
})

test('ignores routes of plugins', async () => {
  const world = discovering({
    '/apis/-': notServed,
    '/apis': groups('a.com', 'console.a.com'),
    '/apis/a.com/v1': resources('items'),
    '/apis/console.a.com/v1': ok({ resources: [{ name: 'items', singularName: '', kind: '', verbs: [] }] }),
  })
  await world.clock.advance(0)
  expect(world.seen).toEqual([['a.com/v1 items Item Cluster']])
  await world.stop()
})

test('a kind is not considered gone because a part of discovery failed, or the server is away', async () => {
  const world = discovering({
    '/apis/-': notServed,
    '/apis': groups('a.com', 'b.com'),
    '/apis/a.com/v1': resources('items'),
    '/apis/b.com/v1': resources('parts'),
  })
  await world.clock.advance(0)
  expect(world.seen.length).toBe(1)
  for (const broken of [unknown, notServed, ok({}), ok({ resources: [{}] })]) {
    world.answers['/apis/b.com/v1'] = broken
    await world.clock.advance(30_000)
  }
  delete world.answers['/apis/-']
  await world.clock.advance(30_000)
  expect(world.seen.length).toBe(1)
  Object.assign(world.answers, { '/apis/-': notServed, '/apis': groups('a.com') })
  await world.clock.advance(30_000)
  expect(world.seen[1]).toEqual(['a.com/v1 items Item Cluster'])
  await world.stop()
})

test('yields the kinds of a server that has no core group', async () => {
  const world = discovering({
    '/apis/-': notServed,
    '/api': unknown,
    '/apis': groups('a.com'),
    '/apis/a.com/v1': resources('items'),
  })
  await world.clock.advance(30_000)
  expect(world.seen).toEqual([])
  world.answers['/api'] = notServed
  await world.clock.advance(10_000)
  expect(world.seen).toEqual([['a.com/v1 items Item Cluster']])
  await world.stop()
})

test('yields the kinds of the core group, and the scope of each', async () => {
  const namespaced = (name: string, is: boolean) => ({
    ...{ name, singularName: '', kind: 'Thing', verbs: ['watch'], namespaced: is },
  })
  const { clock, seen, stop } = discovering({
    '/apis/-': notServed,
    '/api': ok({ versions: ['v1'] }),
    '/api/v1': ok({ resources: [namespaced('namespaces', false)] }),
    '/apis': groups('a.com'),
    '/apis/a.com/v1': ok({ resources: [namespaced('seats', true)] }),
  })
  await clock.advance(1_000)
  expect(seen).toEqual([['v1 namespaces Thing Cluster', 'a.com/v1 seats Thing Namespaced']])
  await stop()
})
