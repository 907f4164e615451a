import type { Revision } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from '../model/index.ts'
import type { ModelSnapshot } from './model-snapshot.ts'

/** A name in the store with the revision of its last write. */
interface StoredRevision {
  readonly name: string
  readonly revision: Revision
}

/**
 * Iterates over a state by name: its objects, merged with the stored values that could not be decoded.
 * @param unreadable by name; copied at the call
 */
export function storedRevisions(
  snapshot: ModelSnapshot,
  unreadable: ReadonlyMap<string, Revision>,
): Iterator<StoredRevision> {
  const others = Array.from(unreadable, ([name, revision]) => ({ name, revision })).sort((a, b) =>
    compareCodePoints(a.name, b.name),
  )
  return merged(snapshot, others)
}

function* merged(snapshot: ModelSnapshot, others: readonly StoredRevision[]): Generator<StoredRevision> {
  let other = 0
  const cursor = snapshot.objects.cursor(0)
  for (let entry = cursor.value; entry !== undefined; cursor.next(), entry = cursor.value) {
    for (
      let next = others[other];
      next && compareCodePoints(next.name, entry.name) < 0;
      next = others[other]
    ) {
      yield next
      other++
    }
    yield entry
  }
  yield* others.slice(other)
}

/** Compares a state with another one that arrives name by name. Holds one name at a time. */
export class Alongside {
  readonly #state: Iterator<StoredRevision>
  #next: StoredRevision | undefined

  constructor(state: Iterator<StoredRevision>) {
    this.#state = state
    this.#advance()
  }

  /** Yields the names before this one, which the other state does not have. */
  *before(name: string): Generator<StoredRevision> {
    while (this.#next !== undefined && compareCodePoints(this.#next.name, name) < 0) {
      yield this.#next
      this.#advance()
    }
  }

  /** Returns this name's revision, or undefined if the state does not have it. `name` is the other state's next name. */
  take(name: string): StoredRevision | undefined {
    if (this.#next?.name !== name) return undefined
    const taken = this.#next
    this.#advance()
    return taken
  }

  /** Yields the remaining names. */
  *rest(): Generator<StoredRevision> {
    for (; this.#next !== undefined; this.#advance()) yield this.#next
  }

  #advance(): void {
    const { done, value } = this.#state.next()
    this.#next = done ? undefined : value
  }
}
