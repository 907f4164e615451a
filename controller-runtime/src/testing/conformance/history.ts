import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import { compareVersions } from '../../api/version.ts'
import type { Client } from '../../client/client.ts'
import { collectionPath } from '../../client/paths.ts'

interface Change {
  readonly removed: boolean
  readonly object: ApiObject
}

/** Every state that the objects of some kinds have been in since the recording began. */
export class History implements Disposable {
  readonly #changes = new Map<string, Change[]>()
  readonly #ending = new AbortController()

  /** Resolves when nothing that happens from now on is missed. */
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

  /** The versions of one object, in order. */
  versionsOf(model: Model, name: string): readonly string[] {
    return (this.#changes.get(collectionPath(model)) ?? [])
      .filter(({ object }) => object.metadata.name === name)
      .map(({ object }) => object.metadata.version)
  }

  /** What a collection held at a version; undefined for a path that is no recorded collection. */
  stateAt(path: string, version: string): readonly ApiObject[] | undefined {
    const changes = this.#changes.get(path)
    if (changes === undefined) return undefined
    const state = new Map<string, ApiObject>()
    for (const { removed, object } of changes) {
      const { name } = object.metadata
      if (compareVersions(object.metadata.version, version) > 0) break
      if (removed) state.delete(name)
      else state.set(name, object)
    }
    return [...state.values()]
  }

  [Symbol.dispose](): void {
    this.#ending.abort()
  }
}
