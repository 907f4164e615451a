import { signal } from '@preact/signals'
import { apiVersionOf, type Kind, pathOfKind } from '../api/discovery.ts'
import { type ApiObject, fieldsOf, isNewer, objectOf } from '../api/json.ts'
import { socket } from '../api/socket.ts'
import { oncePerFrame } from './frames.ts'

/** A change of an object while its page was open. */
export interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly at: number
  readonly object: ApiObject
  readonly before: ApiObject | undefined
}

export type ObjectState =
  | { readonly is: 'loading' }
  | { readonly is: 'there'; readonly object: ApiObject }
  /** It was there, and has been deleted. */
  | { readonly is: 'gone'; readonly object: ApiObject }
  /** It was there, and cannot be watched any more. */
  | { readonly is: 'lost'; readonly object: ApiObject; readonly why: string }
  | { readonly is: 'missing'; readonly why: string }

/** Changes that are kept for the history. */
const historyLength = 500

/** One object, live. */
export class LiveObject {
  readonly state = signal<ObjectState>({ is: 'loading' })
  /** The newest first. */
  readonly history = signal<readonly Change[]>([])
  readonly #known: { readonly apiVersion: string; readonly kind: string }
  #state: ObjectState = { is: 'loading' }
  #history: Change[] = []
  readonly #end: () => void
  #isSeen = false
  readonly #draw = oncePerFrame(() => {
    this.state.value = this.#state
    this.history.value = [...this.#history]
  })

  constructor(kind: Kind, namespace: string | undefined, name: string) {
    this.#known = { apiVersion: apiVersionOf(kind), kind: kind.kind }
    this.#end = this.#watch(pathOfKind(kind, namespace, name))
  }

  close(): void {
    this.#end()
  }

  #watch(path: string): () => void {
    let end = () => {}
    const open = () => {
      end = socket.subscribe({
        path,
        version: undefined,
        restarted: () => {
          this.#isSeen = false
        },
        event: (type, value) => this.#take(type, objectOf(value, this.#known)),
        synced: () => this.#settle(),
        expired: () => {
          this.#isSeen = false
          open()
        },
        refused: why => {
          // With its kind an object goes first, and then its watch.
          if (this.#state.is === 'gone') return
          this.#state =
            'object' in this.#state ? { is: 'lost', object: this.#state.object, why } : { is: 'missing', why }
          this.#draw()
        },
      })
    }
    open()
    return () => end()
  }

  #take(type: Change['type'], object: ApiObject): void {
    this.#isSeen = type !== 'DELETED'
    const before = 'object' in this.#state ? this.#state.object : undefined
    const { uid, version } = object.metadata
    const isSame = before?.metadata.uid === uid
    // Seen before the connection was lost.
    if (isSame && type !== 'DELETED' && !isNewer(version, before.metadata.version)) return
    const change = {
      type: isSame && type === 'ADDED' ? 'MODIFIED' : type,
      at: Date.now(),
      object,
      before,
    } as const
    this.#history = [change, ...this.#history].slice(0, historyLength)
    this.#state = { is: type === 'DELETED' ? 'gone' : 'there', object }
    this.#draw()
  }

  /** The initial events are complete: what is not among them does not exist. */
  #settle(): void {
    if (this.#isSeen) return
    if (this.#state.is === 'there') this.#take('DELETED', this.#state.object)
    else if (this.#state.is === 'loading') {
      this.#state = { is: 'missing', why: 'There is no object of this name.' }
      this.#draw()
    }
  }
}

/** Returns the name of an owner or another reference. */
export function referenceName(value: unknown): string {
  const { kind, name } = fieldsOf(value)
  return `${kind} ${name}`
}
