import { expect, test } from 'vitest'
import { gadgets } from './kinds.ts'
import { asFirst, removedAsFirst, specIn } from './versions.ts'

const second = { ...gadgets, version: 'v2' }
const inFirst = { apiVersion: 'sim.example.com/v1', kind: 'Gadget', metadata: {}, spec: { size: 1 } }
const inSecond = { ...inFirst, apiVersion: 'sim.example.com/v2', spec: { volume: 1 } }

test('an object of the second version is compared as the first one shows it', () => {
  expect(specIn(second, { size: 1, note: 'n' })).toEqual({ volume: 1, note: 'n' })
  expect(asFirst(second, inSecond)).toEqual(inFirst)
  expect(asFirst(second, { items: [inSecond] })).toEqual({ items: [inFirst] })
  expect(asFirst(gadgets, inFirst)).toBe(inFirst)
})

test('an object that is shown in another version than asked for differs from every stored one', () => {
  expect(asFirst(gadgets, inSecond)).not.toEqual(inFirst)
  expect(asFirst(second, inFirst)).not.toEqual(inFirst)
  expect(asFirst(second, { ...inSecond, spec: { size: 1 } })).not.toEqual(inFirst)
})

test('only what is deleted may be shown in the version that it is stored in', () => {
  expect(removedAsFirst(gadgets, inSecond)).toEqual(inFirst)
  expect(removedAsFirst(second, inFirst)).not.toEqual(inFirst)
})
