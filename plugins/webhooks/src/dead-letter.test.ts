import { expect, test } from 'vitest'
import { DeadLetter, sealedContent } from './dead-letter.ts'

const metadata = { ...{ name: 'a', uid: 'u', generation: 1 }, creationTimestamp: '2026-01-01T00:00:00.000Z' }
const spec = {
  ...{ subscription: 's', id: 'msg_1', object: 'Item a', version: '7', attempts: 2, reason: 'refused' },
  ...{ payload: { type: 'Item.added' }, seal: 'c2VhbA==', retry: false },
}
const letter = { apiVersion: DeadLetter.apiVersion, kind: DeadLetter.kind, metadata, spec }
type Letter = typeof letter

const violations = (changed: object, previous: Letter | undefined, name: string, ...groups: string[]) =>
  DeadLetter.validate?.(
    { ...letter, spec: { ...spec, ...changed } },
    { previous, user: { name, groups }, subresource: undefined },
  ) ?? []

test.each([
  ['setpoint:plugin:webhooks', []],
  ['system:serviceaccount:setpoint-system:controllers', []],
  ['controllers', ['setpoint:controllers']],
])('%s creates dead letters', (name, groups) => {
  expect(violations({}, undefined, name, ...groups)).toEqual([])
})

test.each([
  ['ann', ['setpoint:admins']],
  ['setpoint:plugin:other', []],
])('%s, who is not the plugin, creates none', (name, groups) => {
  expect(violations({}, undefined, name, ...groups)).toEqual([
    { field: 'spec', message: 'only the plugin creates dead letters', reason: 'FieldValueForbidden' },
  ])
})

test('people may ask for a retry', () => {
  expect(violations({ retry: true }, letter, 'ann')).toEqual([])
})

test.each<[string, object]>([
  ['payload', { payload: { type: 'Item.added', more: 1 } }],
  ['payload', { payload: undefined }],
  ['subscription', { subscription: 'other' }],
  ['id', { id: 'other' }],
  ['object', { object: 'other' }],
  ['version', { version: '8' }],
  ['attempts', { attempts: 3 }],
  ['reason', { reason: 'other' }],
  ['seal', { seal: 'other' }],
])('nobody may change spec.%s', (field, changed) => {
  for (const name of ['ann', 'setpoint:plugin:webhooks'])
    expect(violations(changed, letter, name)).toEqual([{ field: `spec.${field}`, message: 'is immutable' }])
})

test('a seal does not depend on the order of fields, but on everything else', () => {
  const sealed = sealedContent('u', 'i', { a: [1, { b: 2, c: 3 }], d: 4 })
  expect(sealedContent('u', 'i', { d: 4, a: [1, { c: 3, b: 2 }] })).toBe(sealed)
  const others = [
    sealedContent('v', 'i', { a: [1, { b: 2, c: 3 }], d: 4 }),
    sealedContent('u', 'j', { a: [1, { b: 2, c: 3 }], d: 4 }),
    sealedContent('u', 'i', { a: [{ b: 2, c: 3 }, 1], d: 4 }),
    sealedContent('u', 'i', { a: [1, { b: 2, c: 3 }], d: '4' }),
  ]
  for (const other of others) expect(other).not.toBe(sealed)
})
