import { describe, expect, expectTypeOf, test } from 'vitest'
import { gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ApiObject, OwnerReference } from './object.ts'
import {
  AlreadyOwnedError,
  controllerOf,
  isOwnedBy,
  removeOwnerReference,
  setControllerReference,
  setOwnerReference,
} from './owners.ts'
import { finalizersForDeletion } from './propagation.ts'

const owner = gadget('owner', 1)
const other = gadget('other', 1)
const draft = { metadata: { name: 'part' }, spec: { size: 1 } }

const reference = ({ apiVersion, kind, metadata: { name, uid } }: ApiObject): OwnerReference => ({
  apiVersion,
  kind,
  name,
  uid,
})

/** A later object of the same name. */
const again = (object: ApiObject): ApiObject => ({
  ...object,
  metadata: { ...object.metadata, uid: 'another-uid' },
})

describe('setControllerReference', () => {
  test('sets the controller, and blocks its foreground deletion', () => {
    const part = setControllerReference(owner, draft)
    expect(part.metadata).toEqual({
      name: 'part',
      ownerReferences: [{ ...reference(owner), controller: true, blockOwnerDeletion: true }],
    })
    expect(controllerOf(part)).toEqual(expect.objectContaining({ uid: owner.metadata.uid }))
    expect(controllerOf(setControllerReference(owner, draft, { blockOwnerDeletion: false }))).toMatchObject({
      blockOwnerDeletion: false,
    })
  })

  test('does not change the given object, and keeps its type', () => {
    const frozen = Object.freeze({ ...draft, metadata: Object.freeze({ ...draft.metadata }) })
    const part = setControllerReference(owner, frozen)
    expect(frozen.metadata).toEqual({ name: 'part' })
    expect(part.spec).toBe(frozen.spec)
    expectTypeOf(part.spec.size).toEqualTypeOf<number>()
  })

  test('refuses a second controller and names the first', () => {
    const part = setControllerReference(owner, draft)
    expect(() => setControllerReference(other, part)).toThrow(AlreadyOwnedError)
    expect(() => setControllerReference(other, part)).toThrow(
      expect.objectContaining({ controller: expect.objectContaining({ name: 'owner' }) }),
    )
  })

  test('replaces an earlier object of the same name, and another version of the kind', () => {
    const part = setControllerReference(owner, draft)
    const newer = { ...again(owner), apiVersion: owner.apiVersion.replace(/\/.*/, '/v2') }
    expect(setControllerReference(newer, part).metadata).toMatchObject({
      ownerReferences: [{ uid: 'another-uid', apiVersion: newer.apiVersion, controller: true }],
    })
  })

  test('refuses an owner that was never stored', () => {
    const unstored = { ...owner, metadata: { ...owner.metadata, uid: '' } }
    expect(() => setControllerReference(unstored, draft)).toThrow(TypeError)
  })

  test('turns a plain owner into the controller', () => {
    const part = setControllerReference(owner, setOwnerReference(other, setOwnerReference(owner, draft)))
    expect(part.metadata).toMatchObject({
      ownerReferences: [{ name: 'owner', controller: true }, { name: 'other' }],
    })
  })
})

describe('setOwnerReference', () => {
  test('adds several owners, each once', () => {
    const part = setOwnerReference(owner, setOwnerReference(other, setOwnerReference(owner, draft)))
    expect(part.metadata).toEqual({
      name: 'part',
      ownerReferences: [reference(owner), reference(other)],
    })
    expect(controllerOf(part)).toBeUndefined()
  })

  test('sets blockOwnerDeletion if it is given', () => {
    expect(setOwnerReference(owner, draft, { blockOwnerDeletion: true }).metadata).toMatchObject({
      ownerReferences: [{ blockOwnerDeletion: true }],
    })
  })
})

test('removeOwnerReference removes one owner and keeps the others', () => {
  const part = setOwnerReference(other, setControllerReference(owner, draft))
  const left = removeOwnerReference(owner, part)
  expect(left.metadata).toEqual({ name: 'part', ownerReferences: [reference(other)] })
  expect(removeOwnerReference(owner, left)).toEqual(left)
  expect(removeOwnerReference(other, left)).toEqual(draft)
})

test('isOwnedBy compares uids: a later object of the same name is not an owner', () => {
  const part = setOwnerReference(owner, draft)
  expect(isOwnedBy(part, owner)).toBe(true)
  expect(isOwnedBy(part, again(owner))).toBe(false)
  expect(isOwnedBy(part, other)).toBe(false)
  expect(isOwnedBy(draft, owner)).toBe(false)
})

describe('finalizersForDeletion', () => {
  test('a policy overrides the finalizers on the object, which decide without a policy', () => {
    const given = ['a/b', 'orphan']
    expect(finalizersForDeletion(given, undefined)).toEqual(given)
    expect(finalizersForDeletion(given, 'Background')).toEqual(['a/b'])
    expect(finalizersForDeletion(given, 'Foreground')).toEqual(['a/b', 'foregroundDeletion'])
    expect(finalizersForDeletion(given, 'Orphan')).toEqual(['a/b', 'orphan'])
    expect(finalizersForDeletion(undefined, undefined)).toEqual([])
  })
})
