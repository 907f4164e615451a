import { defineBuiltInModel, toRevision } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { encodeStored, ServedModel } from '../model/index.ts'
import { decodeEntry } from './entry-codec.ts'

const model = defineBuiltInModel({
  group: '',
  version: 'v1',
  kind: 'Note',
  singular: 'note',
  plural: 'notes',
  schema: { text: { type: 'string' } },
})
const served = ServedModel.builtIn(model, { rules: {} })

it('an object of a built-in kind that was stored with a generation is read without it', () => {
  const metadata = { name: 'a', uid: 'u', creationTimestamp: '2024-01-01T00:00:00.000Z' }
  const object = { apiVersion: 'v1', kind: 'Note', metadata, text: 'x' }
  const read = (stored: object) =>
    decodeEntry(served, 'a', encodeStored(JSON.stringify(stored), {}), toRevision(7)).entry
  const entry = read({ ...object, metadata: { ...metadata, generation: 3 } })
  expect(entry.bytes).toEqual(read(object).bytes)
  // A write may start from the cache, because the content is the stored one.
  expect(entry.storedFormDiffers).toBeUndefined()
})

it('wire JSON begins with apiVersion and kind, whatever the order of the stored fields', () => {
  const stored = '{"text":"x","kind":"Note","metadata":{"uid":"u","name":"a"},"apiVersion":"v1"}'
  const { bytes } = decodeEntry(served, 'a', encodeStored(stored, {}), toRevision(7)).entry
  expect(bytes.toString().startsWith(`${served.hub.wirePrefix}a"`)).toBe(true)
})
