import {
  multiValueIndex,
  type Revision,
  singleValueIndex,
  toRevision,
} from '@setpoint/controller-runtime/api'
import type { Entry } from '../../apiserver/src/cache/entry.ts'
import { type CacheEvent, History, historyDefaults } from '../../apiserver/src/cache/history.ts'
import { ModelStore } from '../../apiserver/src/cache/model-store.ts'
import { IndexSet } from '../../apiserver/src/model/index-set.ts'
import { contentOf } from './snapshot-content.ts'

const declared = [
  singleValueIndex({ name: 'spec.n', indexFunc: () => undefined })(),
  multiValueIndex({ name: 'spec.tags', indexFunc: () => [] })(),
]
const clusterScoped = new IndexSet({ indexes: declared })
export const namespaced = new IndexSet({ indexes: declared, scope: 'Namespaced' })

interface Content {
  readonly name: string
  readonly namespace?: string
  readonly n?: string | undefined
  readonly tags?: readonly string[]
  readonly labels?: Readonly<Record<string, string>>
  /** The length of the object's JSON. */
  readonly bytes?: number
}

/** Shared by all entries. */
const zeros = Buffer.alloc(1_000_000)

/** The cache of a model that a test writes to. It remembers the objects of every state. */
export class ModelLog {
  history: History
  readonly store: ModelStore
  revision = toRevision(0)
  /** Called after each change. */
  changed: (event: CacheEvent) => void = () => {}
  /** The objects by key, at each revision. */
  readonly #states: ReadonlyMap<string, Entry>[] = [new Map()]

  constructor(indexes = clusterScoped, limits = historyDefaults) {
    this.history = new History(this.revision, () => 0, limits)
    this.store = new ModelStore(indexes)
  }

  /** Replaces an object, or removes it if there is no content. The revisions before it are of other kinds. */
  write(key: string, content?: Content, revision: Revision = toRevision(this.revision + 1)): void {
    const previous = this.store.get(key)
    const next = content && this.#entryOf(content, revision)
    if (previous === undefined && next === undefined) return
    const objects = new Map(this.#states.at(-1))
    while (this.#states.length < revision) this.#states.push(objects)
    this.revision = revision
    this.store.apply(next, previous)
    const event = { revision, previous, next }
    this.history.push(event)
    const changed = new Map(objects)
    if (next === undefined) changed.delete(key)
    else changed.set(key, next)
    this.#states.push(changed)
    this.changed(event)
  }

  /** Returns the content of the state at a revision, from a store that never had another state. */
  contentAt(revision: Revision): unknown {
    const store = new ModelStore(this.store.indexes)
    for (const entry of this.#states[revision]?.values() ?? []) store.apply(entry, undefined)
    return contentOf(store.snapshot())
  }

  #entryOf({ name, namespace, n, tags = [], labels = {}, bytes = 0 }: Content, revision: Revision): Entry {
    const values = new Map<string, readonly string[]>([
      ['metadata.name', [name]],
      ['metadata.creationTimestamp', ['2024']],
      ['metadata.labels', Object.entries(labels).map(([key, value]) => `${key}=${value}`)],
      ['metadata.namespace', namespace === undefined ? [] : [namespace]],
      ['spec.n', n === undefined ? [] : [n]],
      ['spec.tags', tags],
    ])
    return {
      name,
      ...(namespace !== undefined && { namespace }),
      revision,
      bytes: zeros.subarray(0, bytes),
      labels,
      values: this.store.indexes.names.map(index => values.get(index) ?? []),
    }
  }
}
