import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import { type ObjectKey, objectKey } from '../../api/object-key.ts'
import { compareVersions } from '../../api/version.ts'
import type { Client } from '../../client/client.ts'
import { collectionPath } from '../../client/paths.ts'

interface Change {
  readonly removed: boolean
  readonly object: ApiObject
}

/** Records all states of the objects of some kinds. */
export class History implements Disposable {
  readonly #changes = new Map<string, Change[]>()
  readonly #ending = new AbortController()

  /** Starts to record. Resolves when no further change will be missed. */
  static async record(client: Client, models: readonly Model[]): Promise<History> {
    const history = new History()
    await Promise.all(models.map(model => history.#follow(client, model)))
    return history
  }

  async #follow(client: Client, model: Model): Promise<void> {
    const changes: Change[] = []
    this.#changes.set(collectionPath(model), changes)
    const watch = await client.watch(model, { signal: this.#ending.signal })
    void (async () => {
      for await (const event of watch) {
        if (event.type === 'BOOKMARK' || event.type === 'ERROR') continue
        changes.push({ removed: event.type === 'DELETED', object: event.object })
      }
    })()
  }

  /** Returns the versions of one object, in order. */
  versionsOf(model: Model, key: ObjectKey): readonly string[] {
    return (this.#changes.get(collectionPath(model)) ?? [])
      .filter(({ object }) => objectKey(object.metadata) === key)
      .map(({ object }) => object.metadata.version)
  }

  /** Returns the objects of a collection at a version; undefined if the path is not a recorded collection. */
  stateAt(path: string, version: string): readonly ApiObject[] | undefined {
    const changes = this.#changes.get(path)
    if (changes === undefined) return undefined
    const state = new Map<string, ApiObject>()
    for (const { removed, object } of changes) {
      const key = objectKey(object.metadata)
      if (compareVersions(object.metadata.version, version) > 0) break
      if (removed) state.delete(key)
      else state.set(key, object)
    }
    return [...state.values()]
  }

  [Symbol.dispose](): void {
    this.#ending.abort()
  }
}
