import type { ObjectKey, Revision } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from '../model/index.ts'
import { keyOfEntry } from './entry.ts'
import type { ModelSnapshot } from './model-snapshot.ts'

/** The key of an object in the store with the revision of its last write. */
interface StoredRevision {
  readonly key: ObjectKey
  readonly revision: Revision
}

/**
 * Iterates over a state by key: its objects, merged with the stored values that could not be read.
 * @param unreadable by key; copied at the call
 */
export function storedRevisions(
  snapshot: ModelSnapshot,
  unreadable: ReadonlyMap<string, Pick<StoredRevision, 'revision'>>,
): Iterator<StoredRevision> {
  const others = Array.from(unreadable, ([key, { revision }]) => ({ key, revision })).sort((a, b) =>
    compareCodePoints(a.key, b.key),
  )
  return merged(snapshot, others)
}

function* merged(snapshot: ModelSnapshot, others: readonly StoredRevision[]): Generator<StoredRevision> {
  let other = 0
  const cursor = snapshot.objects.cursor(0)
  for (let entry = cursor.value; entry !== undefined; cursor.next(), entry = cursor.value) {
    const key = keyOfEntry(entry)
    for (let next = others[other]; next && compareCodePoints(next.key, key) < 0; next = others[other]) {
      yield next
      other++
    }
    yield { key, revision: entry.revision }
  }
  yield* others.slice(other)
}

/** Compares a state with another one that arrives key by key. Holds one key at a time. */
export class Alongside {
  readonly #state: Iterator<StoredRevision>
  #next: StoredRevision | undefined

  constructor(state: Iterator<StoredRevision>) {
    this.#state = state
    this.#advance()
  }

  /** Yields the objects before this one, which the other state does not have. */
  *before(key: ObjectKey): Generator<StoredRevision> {
    while (this.#next !== undefined && compareCodePoints(this.#next.key, key) < 0) {
      yield this.#next
      this.#advance()
    }
  }

  /**
   * Returns this object's revision, or undefined if the state does not have it. `key` is the other state's next one.
   */
  take(key: ObjectKey): StoredRevision | undefined {
    if (this.#next?.key !== key) return undefined
    const taken = this.#next
    this.#advance()
    return taken
  }

  /** Yields the remaining objects. */
  *rest(): Generator<StoredRevision> {
    for (; this.#next !== undefined; this.#advance()) yield this.#next
  }

  #advance(): void {
    const { done, value } = this.#state.next()
    this.#next = done ? undefined : value
  }
}
