import { decodeStored, objectsPrefix } from '../../apiserver/src/model/index.ts'
import type { Fields } from '../support/json.ts'
import { type Commit, type Resource, titleOf } from './history.ts'
import { restorer, type StoreTruth } from './world/world.ts'

/** Returns the changes of objects of some kinds, with each object as clients see it. What the store began with counts as changes. */
export function storedCommits(store: StoreTruth, resources: readonly Resource[]): Commit[] {
  const known = new Map(resources.map(resource => [titleOf(resource), resource]))
  const [first] = store.commits
  const base = first === undefined ? [] : [...store.at(first.revision - 1)]
  const beginning = base
    .map(([key, { value, modRevision }]) => ({
      revision: modRevision,
      atMs: 0,
      by: '',
      changes: [{ key, value }],
    }))
    .toSorted((a, b) => a.revision - b.revision)
  return [...beginning, ...store.commits].flatMap(({ revision, atMs, by, changes }) =>
    changes.flatMap(({ key, value }) => {
      if (!key.startsWith(objectsPrefix)) return []
      const [group, plural, ...names] = key.slice(objectsPrefix.length).split('/')
      const resource = known.get(`${group}/${plural}`)
      const name = names.at(-1)
      if (resource === undefined || name === undefined) return []
      const namespace = names.length > 1 ? names[0] : undefined
      const object = value === undefined ? undefined : objectOf(value, revision)
      const isRestored = by === restorer
      return [{ revision, at: atMs, resource: titleOf(resource), namespace, name, object, isRestored }]
    }),
  )
}

function objectOf(value: Buffer, revision: number): Fields {
  const { object } = decodeStored(value)
  const text = String(revision)
  return { ...object, metadata: { ...object.metadata, version: text, resourceVersion: text } }
}
