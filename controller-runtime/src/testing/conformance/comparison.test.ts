import { expect, test } from 'vitest'
import { Gadget, Part } from '../../../../test/support/sdk/sample-models.ts'
import { setControllerReference } from '../../api/owners.ts'
import { startTestServer } from '../test-server.ts'
import { SeededRandom } from './seeded-random.ts'
import { comparable, compareSnapshots, hasGarbage } from './snapshot.ts'
import { sideBySide, Timeline } from './timeline.ts'

const nothing = { texts: new Map(), times: new Set<number>(), normalize: undefined }

test('random values and times that the reconciler drew are equal in every lifecycle', () => {
  const random = new SeededRandom()
  const serial = random.draw('a/serial').toString('hex')
  const time = Date.UTC(2030, 0, 1)
  const replacements = { ...nothing, texts: random.placeholders, times: new Set([time]) }
  const world = {
    id: `cert-${serial}`,
    secret: Buffer.from(serial).toString('base64'),
    at: new Date(time).toISOString(),
    second: '2030-01-01T00:00:00Z',
    time,
  }
  expect(comparable({ objects: {}, world }, replacements).world).toEqual({
    id: 'cert-<random serial>',
    secret: '<random serial>',
    at: '<time>',
    second: '<time>',
    time: '<time>',
  })
})

test('the draws of a name repeat in every lifecycle, and differ from each other and from those of other names', () => {
  const [one, two] = [new SeededRandom(), new SeededRandom()]
  const draws = [one.draw('a/serial'), one.draw('a/serial'), one.draw('a/key'), one.draw('b/serial')]
  expect(new Set(draws.map(draw => draw.toString('hex'))).size).toBe(4)
  expect(two.draw('a/serial')).toEqual(draws[0])
  expect(one.draw('a/seed', 40)).toHaveLength(40)
})

test('a difference outside of the API has its path in what `world` returns', () => {
  const snapshot = (size: number) => ({ objects: {}, world: [{ size }] })
  expect(compareSnapshots(snapshot(1), snapshot(2), [])).toMatchObject({
    deed: 'it left a different state outside of the API: world[0].size is 2 instead of 1',
    message: 'the result differs from an undisturbed lifecycle: world[0].size is 2 instead of 1',
  })
})

test('objects are sorted after normalization, which may also omit values', () => {
  const names = (order: readonly string[]) => ({
    objects: { 'parts.example.com': order.map(key => ({ spec: { key, at: order.indexOf(key) } })) },
    world: null,
  })
  const normalize = (value: unknown, path: readonly string[]) =>
    path[0] === 'objects' && path.at(-1) === 'key' ? undefined : value
  const first = comparable(names(['x', 'y']), { ...nothing, normalize })
  expect(first).toEqual(comparable(names(['y', 'x']), { ...nothing, normalize }))
  expect(first.objects['parts.example.com']).toEqual([{ spec: { at: 0 } }, { spec: { at: 1 } }])
})

test('histories are shown side by side from shortly before the fault, which is marked', () => {
  const timeline = new Timeline()
  for (let number = 1; number <= 30; number++) {
    timeline.call({
      number,
      phase: 'converging',
      method: 'PATCH',
      path: `/apis/demo.example.com/v1/gadgets/g${number}`,
      body: undefined,
      signal: undefined,
      isDisturbed: number === 20,
      executed: number === 20 ? undefined : 200,
      outcome: number === 20 ? 429 : 200,
    })
  }
  const rows = timeline.rows()
  const shown = sideBySide(rows.slice(0, 20), rows)
  expect(shown).toContain('| >> 20 PATCH gadgets/g20: 429, not executed'.replace('| ', '|'))
  expect(shown).toContain('... 15 earlier')
  expect(shown).not.toContain('gadgets/g15:')
})

test('dependents whose owner is gone are garbage until the collector has deleted them', async () => {
  const models = [Gadget, Part]
  await using server = await startTestServer({ models, collector: false })
  const { client } = server
  const owner = await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await client.create(Part, { metadata: { name: 'free' }, spec: {} })
  await client.apply(Part, setControllerReference(owner, { metadata: { name: 'owned' }, spec: {} }))
  expect(await hasGarbage(client, models)).toBe(false)
  await client.delete(Gadget, 'a')
  expect(await hasGarbage(client, models)).toBe(true)
  // The owner may be there: its kind is not among these.
  expect(await hasGarbage(client, [Part])).toBe(false)
  await client.delete(Part, 'owned')
  expect(await hasGarbage(client, models)).toBe(false)
})
