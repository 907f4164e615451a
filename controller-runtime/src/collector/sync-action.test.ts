import { describe, expect, test } from 'vitest'
import { gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectMeta, OwnerReference } from '../api/object.ts'
import type { Standing } from './graph.ts'
import { syncActionFor } from './sync-action.ts'

/** A dependent whose owners are named after their standing. */
function settle(standings: Standing[], extra: Partial<ObjectMeta> = {}, hasDependents = false) {
  const ownerReferences = standings.map((name, at) => ({
    apiVersion: 'demo.example.com/v1',
    kind: 'Gadget',
    name,
    uid: `uid-${at}`,
  }))
  const metadata = { ...gadget('part', 1).metadata, ownerReferences, ...extra }
  const known = (reference: OwnerReference) =>
    standings.find(standing => standing === reference.name) ?? 'unchecked'
  const action = syncActionFor(metadata, known, hasDependents)
  return action.do === 'release' ? action.references.map(({ name }) => name) : action
}

const nothing = { do: 'nothing' }
const deleting = { deletionTimestamp: '2030-01-01T00:00:00.000Z', finalizers: ['a/b'] }

describe('a dependent', () => {
  test('is deleted only if every owner is known to be gone', () => {
    expect(settle(['absent'])).toEqual({ do: 'delete', policy: undefined })
    expect(settle(['absent', 'absent'])).toEqual({ do: 'delete', policy: undefined })
    expect(settle(['present'])).toEqual(nothing)
    expect(settle(['unresolved'])).toEqual(nothing)
    expect(settle([])).toEqual(nothing)
  })

  test('is left alone while an owner is unchecked', () => {
    expect(settle(['absent', 'unchecked'])).toEqual(nothing)
    expect(settle(['orphaning', 'unchecked'])).toEqual(nothing)
  })

  test('keeps the references to existing owners and loses the others', () => {
    expect(settle(['absent', 'present', 'foreground'])).toEqual(['present'])
    expect(settle(['absent', 'unresolved'])).toEqual(['unresolved'])
  })

  test('stays if an owner orphans it, even if the others are gone', () => {
    expect(settle(['orphaning'])).toEqual([])
    expect(settle(['orphaning', 'absent'])).toEqual([])
    expect(settle(['orphaning', 'foreground', 'present'])).toEqual(['present'])
  })

  test('is deleted in the foreground as its owner is, if it has dependents of its own and does not orphan them', () => {
    expect(settle(['foreground'])).toEqual({ do: 'delete', policy: undefined })
    expect(settle(['foreground'], {}, true)).toEqual({ do: 'delete', policy: 'Foreground' })
    expect(settle(['foreground', 'absent'], {}, true)).toEqual({ do: 'delete', policy: 'Foreground' })
    expect(settle(['absent'], {}, true)).toEqual({ do: 'delete', policy: undefined })
    expect(settle(['foreground'], { finalizers: ['orphan'] }, true)).toEqual({
      do: 'delete',
      policy: undefined,
    })
  })

  test('that is deleting releases orphaning owners, and no others', () => {
    expect(settle(['absent'], deleting)).toEqual(nothing)
    expect(settle(['foreground'], deleting)).toEqual(nothing)
    expect(settle(['orphaning', 'absent', 'foreground'], deleting)).toEqual(['absent', 'foreground'])
  })
})
