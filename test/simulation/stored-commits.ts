import { decodeStored, objectsPrefix } from '../../apiserver/src/model/index.ts'
import { decodeRecord, recordsPrefix, reservationsPrefix } from '../../apiserver/src/registry/index.ts'
import { type Commit, type DefinitionEnd, type RecordChange, type Resource, titleOf } from './history.ts'
import { definitionOfGears, definitions, gears } from './kinds.ts'
import { metadataOf } from './objects.ts'
import { storedAsFirst } from './versions.ts'
import { restorer, type Commit as StoreCommit, type StoreTruth } from './world/world.ts'

/** Returns the changes of objects of some kinds, with each object as clients see it. */
export function storedCommits(store: StoreTruth, resources: readonly Resource[]): Commit[] {
  const known = new Map(resources.map(resource => [titleOf(resource), resource]))
  return changesOf(store).flatMap(({ revision, atMs, by, changes }) =>
    changes.flatMap(({ key, value }) => {
      if (!key.startsWith(objectsPrefix)) return []
      const [group, plural, ...names] = key.slice(objectsPrefix.length).split('/')
      const resource = known.get(`${group}/${plural}`)
      const name = names.at(-1)
      if (resource === undefined || name === undefined) return []
      const namespace = names.length > 1 ? names[0] : undefined
      const content = value === undefined ? { object: undefined } : contentOf(value, revision)
      const isRestored = by === restorer
      return [{ revision, at: atMs, resource: titleOf(resource), namespace, name, ...content, isRestored }]
    }),
  )
}

function contentOf(value: Buffer, revision: number): Pick<Commit, 'object' | 'storedIn' | 'holds'> {
  const decoded = decodeStored(value)
  const { object, storedIn } = storedAsFirst(decoded.object)
  const text = String(revision)
  return {
    object: { ...object, metadata: { ...metadataOf(object), version: text, resourceVersion: text } },
    storedIn,
    holds: Object.values(decoded.reservations).flat(),
  }
}

/** Returns the changes of the records of some kinds. */
export function storedRecords(store: StoreTruth, resources: readonly Resource[]): RecordChange[] {
  const keys = new Map(resources.map(resource => [recordsPrefix + titleOf(resource), titleOf(resource)]))
  return changesOf(store).flatMap(({ revision, atMs: at, isLate, changes }) =>
    changes.flatMap(({ key, value }) => {
      const resource = keys.get(key)
      const record = value && decodeRecord(value)
      if (resource === undefined || record === undefined) return []
      const { unique, recomputing, stored } = record
      const isUnique = Object.keys(unique).length > 0
      const uniqueness = recomputing ? 'recomputing' : isUnique ? 'in force' : 'none'
      const versions = { stores: stored?.version, mayStore: stored?.all ?? [] }
      return [{ revision, at, resource, uniqueness, ...versions, isLate }]
    }),
  )
}

/** Returns when the definition of gears went, with what was left of its objects. */
export function definitionEnds(store: StoreTruth): DefinitionEnd[] {
  const kept = [objectsPrefix, reservationsPrefix].map(prefix => `${prefix}${titleOf(gears)}/`)
  const definition = `${objectsPrefix}${titleOf(definitions)}/${definitionOfGears}`
  const keys = new Set<string>()
  const ends: DefinitionEnd[] = []
  for (const { revision, atMs, by, changes } of changesOf(store)) {
    for (const { key, value } of changes)
      if (value === undefined) keys.delete(key)
      else if (kept.some(prefix => key.startsWith(prefix))) keys.add(key)
    const isEnd = changes.some(({ key, value }) => key === definition && value === undefined)
    if (isEnd && by !== restorer) ends.push({ revision, at: atMs, keys: [...keys] })
  }
  return ends
}

/** What the store began with counts as changes. */
function changesOf(store: StoreTruth): readonly StoreCommit[] {
  const [first] = store.commits
  const base = store.at(first === undefined ? store.revision : first.revision - 1)
  const beginning = [...base]
    .map(([key, { value, modRevision }]) => ({
      revision: modRevision,
      atMs: 0,
      by: restorer,
      isLate: false,
      changes: [{ key, value }],
    }))
    .toSorted((a, b) => a.revision - b.revision)
  return [...beginning, ...store.commits]
}
