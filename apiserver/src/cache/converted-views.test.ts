import { defineModel } from '@setpoint/controller-runtime'
import { toRevision } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { testModel } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/served-model.ts'
import { encodeObject, encodeStored } from '../model/stored-object.ts'
import { ConvertedViews } from './converted-views.ts'
import { decodeEntry } from './entry-codec.ts'

let conversions = 0
const served = new ServedModel(
  defineModel({
    ...testModel,
    indexes: [],
    versions: [
      {
        name: 'v0',
        schema: { spec: { type: 'object' } },
        toHub: () => ({ spec: {} }),
        fromHub: ({ metadata }) => {
          conversions++
          if (metadata.name === 'bad') throw new Error('bad as it is')
          return { spec: { name: metadata.name } }
        },
      },
    ],
  }),
)
const v0 = served.versionNamed('v0')

function entryOf(name: string) {
  const metadata = { name, uid: name, generation: 1, creationTimestamp: '2024-01-01T00:00:00.000Z' }
  const object = { apiVersion: served.hub.apiVersion, kind: served.hub.kind, metadata, spec: {} }
  return decodeEntry(served, name, encodeStored(encodeObject(object), {}), toRevision(7)).entry
}

it('a view is made once while it is kept, and again after it was dropped', () => {
  const entries = Array.from({ length: 20 }, (_, n) => entryOf(`thing-${n}`))
  const [first] = entries
  if (first === undefined) throw new Error('no entry')
  const room = first.bytes.length * 2 * 10
  const views = new ConvertedViews(served, () => {}, room)
  conversions = 0
  const bytes = views.bytesOf(first, v0)
  expect(JSON.parse(bytes.toString())).toMatchObject({
    apiVersion: v0.apiVersion,
    metadata: { version: '7', resourceVersion: '7' },
    spec: { name: 'thing-0' },
  })
  expect(views.bytesOf(first, v0)).toBe(bytes)
  expect(conversions).toBe(1)
  // A view that is used again and again stays, whatever else is converted.
  for (const entry of entries) {
    views.bytesOf(entry, v0)
    views.bytesOf(first, v0)
  }
  expect(conversions).toBe(20)
  for (const entry of entries.slice(1)) views.bytesOf(entry, v0)
  expect(conversions).toBeGreaterThan(30)
})

it('a failure is kept, and reported once', () => {
  const failed: string[] = []
  const views = new ConvertedViews(served, ({ name }, { problem }) => failed.push(`${name}: ${problem}`))
  const entry = entryOf('bad')
  conversions = 0
  for (let asked = 0; asked < 3; asked++)
    expect(() => views.bytesOf(entry, v0)).toThrow('"bad" from v1 to v0')
  expect([conversions, failed]).toEqual([1, ['bad: bad as it is']])
})
