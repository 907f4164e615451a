import type { Revision } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from './code-point-order.ts'
import type { ModelSnapshot } from './model-snapshot.ts'

/** What the store has under a name: the revision of its last write. */
export interface StoredRevision {
  readonly name: string
  readonly revision: Revision
}

/**
 * All that a state has, by name: its objects, and the values that are no objects, which are not among them.
 * @param unreadable by name; taken as it is at the call
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

/** Walks along a state in step with another that comes name by name. Holds one name at a time, however many there are. */
export class Alongside {
  readonly #state: Iterator<StoredRevision>
  #next: StoredRevision | undefined

  constructor(state: Iterator<StoredRevision>) {
    this.#state = state
    this.#advance()
  }

  /** The names of the state that come before this one, and so are not in the other. */
  *before(name: string): Generator<StoredRevision> {
    while (this.#next !== undefined && compareCodePoints(this.#next.name, name) < 0) {
      yield this.#next
      this.#advance()
    }
  }

  /** What the state has of this name, which is the next one of the other; undefined where it has none. */
  take(name: string): StoredRevision | undefined {
    if (this.#next?.name !== name) return undefined
    const taken = this.#next
    this.#advance()
    return taken
  }

  /** The names that are left. */
  *rest(): Generator<StoredRevision> {
    for (; this.#next !== undefined; this.#advance()) yield this.#next
  }

  #advance(): void {
    const { done, value } = this.#state.next()
    this.#next = done ? undefined : value
  }
}
