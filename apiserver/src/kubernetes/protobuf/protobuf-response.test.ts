import { readFileSync } from 'node:fs'
import { isRecord } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { goKinds, goStructs } from '../types/go-structs.ts'
import type { GoField } from '../types/go-type.ts'
import { decodeProtobuf } from './protobuf-body.ts'
import { encodeProtobuf, protobufFrames, protobufLists } from './protobuf-response.ts'
import { FieldCount, wireFields } from './wire-fields.ts'

const expected = { apiVersion: 'v1', kind: 'ConfigMap' }

function bytesOf(object: object): Buffer {
  const bytes = encodeProtobuf(Buffer.from(JSON.stringify(object)))
  if (bytes === undefined) throw new Error('the kind is not known')
  return bytes
}

const trip = (object: object): object => decodeProtobuf(bytesOf(object), expected)

/** The fields of a message, by number. */
const fieldsIn = (bytes: Buffer) => wireFields(bytes, new FieldCount(1_000))
const bufferAt = (bytes: Buffer, number: number): Buffer => {
  const value = fieldsIn(bytes).get(number)?.at(-1)
  if (!Buffer.isBuffer(value)) throw new Error(`no bytes in field ${number}`)
  return value
}

const file = new URL('../../../../test/fixtures/kubernetes-types/bodies.jsonl', import.meta.url)
const [, ...lines] = readFileSync(file, 'utf8').trim().split('\n')
const recorded = lines
  .map(line => JSON.parse(line))
  .filter(({ json }) => isRecord(json) && json.kind !== 'DeleteOptions')

// Values that JSON does not leave out.
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 5 })
const seconds = fc.integer({ min: -62_135_596_799, max: 253_402_300_799 })
const leaves: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  string: text,
  bool: fc.constant(true),
  int32: fc.integer().filter(n => n !== 0),
  int64: fc.maxSafeInteger().filter(n => n !== 0),
  bytes: fc.uint8Array({ minLength: 1, maxLength: 5 }).map(bytes => Buffer.from(bytes).toString('base64')),
  strings: fc.array(text, { minLength: 1, maxLength: 3 }),
  Time: seconds.map(s => new Date(s * 1_000).toISOString().replace('.000Z', 'Z')),
  MicroTime: fc
    .tuple(seconds, fc.nat(999_999))
    .map(([s, micros]) =>
      new Date(s * 1_000).toISOString().replace('000Z', `${String(micros).padStart(6, '0')}Z`),
    ),
  Quantity: fc.constantFrom('1', '500m', '64Mi'),
  FieldsV1: fc.dictionary(fc.constantFrom('f:a', 'f:b'), fc.constant({}), { noNullPrototype: true }),
}

function arbitraryOf(struct: string): fc.Arbitrary<Record<string, unknown>> {
  const fields = fieldsOf(struct).map(field => [field.name, fieldOf(field)] as const)
  return fc.record(Object.fromEntries(fields), { requiredKeys: [], noNullPrototype: true })
}

/** The fields in JSON. */
function fieldsOf(struct: string): readonly GoField[] {
  return (goStructs[struct] ?? []).flatMap(field =>
    field.form === 'inline' ? fieldsOf(field.type) : [field],
  )
}

function fieldOf({ form, type }: GoField): fc.Arbitrary<unknown> {
  const value = leaves[type] ?? arbitraryOf(type)
  if (form === 'list') return fc.array(value, { minLength: 1, maxLength: 2 })
  const keys = text.filter(key => key !== '__proto__')
  if (form === 'map') return fc.dictionary(keys, value, { minKeys: 1, maxKeys: 2, noNullPrototype: true })
  return value
}

describe('a protobuf response', () => {
  it.each(recorded.map(({ name, json }) => [name, json]))(
    'is read as the object that it was: %s',
    (_name, json) => {
      expect(trip(json)).toEqual(json)
    },
  )

  it.each(Object.entries(goKinds))('has every field of any %s', (name, struct) => {
    const at = name.lastIndexOf('/')
    const typeMeta = { apiVersion: name.slice(0, at), kind: name.slice(at + 1) }
    fc.assert(
      fc.property(arbitraryOf(struct), content => {
        const object = { ...typeMeta, ...content }
        const once = trip(object)
        expect(once).toMatchObject(object)
        expect(trip(once)).toEqual(once)
      }),
      { numRuns: 50 },
    )
  })

  it('keeps zeros that a pointer leads to, seconds of times only, and no field that Go does not have', () => {
    const object = {
      ...{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' },
      metadata: { name: 'a', version: '7', creationTimestamp: '2026-01-02T03:04:05.678Z' },
      spec: { holderIdentity: '', leaseTransitions: 0, renewTime: '2026-01-02T05:04:05.5+02:00' },
    }
    expect(trip(object)).toEqual({
      ...object,
      metadata: { name: 'a', creationTimestamp: '2026-01-02T03:04:05Z' },
      spec: { ...object.spec, renewTime: '2026-01-02T03:04:05.500000Z' },
    })
  })

  it('does not exist of a kind that has no protobuf', () => {
    for (const text of ['{"apiVersion":"a.example.com/v1","kind":"A"}', '{"kind":"Status"}', '[]', '1'])
      expect(encodeProtobuf(Buffer.from(text))).toBeUndefined()
    expect(protobufLists({ apiVersion: 'a.example.com/v1', kind: 'A' })).toBeUndefined()
  })
})

const configMaps = ['a', 'b'].map(name => ({ ...expected, metadata: { name }, data: { k: name } }))

it('a protobuf list has the messages of its items', () => {
  const { list } = protobufLists(expected) ?? {}
  const items = configMaps.map(each => list?.item(Buffer.from(JSON.stringify(each))) ?? Buffer.alloc(0))
  const metadata = { version: '7', resourceVersion: '7', continue: 'x', remainingItemCount: 3 }
  const body = Buffer.concat(list?.enclose?.(metadata, items) ?? [])
  const unknown = body.subarray(4)
  expect(body.subarray(0, 4).toString()).toBe('k8s\0')
  const typeMeta = bufferAt(unknown, 1)
  expect([bufferAt(typeMeta, 1), bufferAt(typeMeta, 2)].map(String)).toEqual(['v1', 'ConfigMapList'])
  const message = bufferAt(unknown, 2)
  const listMeta = fieldsIn(bufferAt(message, 1))
  expect([listMeta.get(2), listMeta.get(3)].map(String)).toEqual(['7', 'x'])
  expect(listMeta.get(4)).toEqual([3])
  const raws = configMaps.map(each => bufferAt(bytesOf(each).subarray(4), 2))
  expect(fieldsIn(message).get(2)).toEqual(raws)
})

it('a frame of a watch is a WatchEvent behind its length', () => {
  const status = {
    apiVersion: 'v1',
    kind: 'Status',
    metadata: {},
    status: 'Failure',
    reason: 'Expired',
    code: 410,
  }
  for (const [type, object] of [
    ['ADDED', configMaps[0]],
    ['ERROR', status],
  ] as const) {
    const pieces: Buffer[] = []
    protobufFrames.encode({ type, object: Buffer.from(JSON.stringify(object)), version: undefined }, pieces)
    const frame = Buffer.concat(pieces)
    expect(frame.readUInt32BE()).toBe(frame.length - 4)
    const event = frame.subarray(4)
    expect(String(bufferAt(event, 1))).toBe(type)
    expect(decodeProtobuf(bufferAt(bufferAt(event, 2), 1), expected)).toEqual(object)
  }
})
