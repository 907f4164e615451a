import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import {
  formatRequirements,
  parseFieldSelector,
  parseLabelSelector,
  type Requirement,
} from '../api/selector.ts'
import type { SelectorOptions } from '../client/client.ts'
import { Informer, type InformerOptions } from './informer.ts'
import type { TransformOption } from './transform.ts'

/** Selectors and transform of an informer. Informers are shared only if `transform` is the same function. */
export interface InformerSelection<T extends ApiObject = ApiObject>
  extends SelectorOptions,
    TransformOption<T> {}

/** One user's handle on a shared informer. */
export interface InformerLease<T extends ApiObject = ApiObject> {
  readonly informer: Informer<T>
  /**
   * Gives up the handle; the last release stops the informer. Further calls have no effect. Remove your handlers
   * before.
   */
  release(): Promise<void>
}

/**
 * Returns the key of a shared informer: the model's API version and plural, and the normalized selectors.
 * Order, spelling and repetition of their terms do not matter.
 * @throws SelectorError if a selector is invalid.
 */
export function informerKey(
  model: Pick<Model, 'apiVersion' | 'plural'>,
  selectors: SelectorOptions = {},
): string {
  const labels = canonical(parseLabelSelector(...texts(selectors.labelSelector)))
  const fields = canonical(parseFieldSelector(...texts(selectors.fieldSelector)))
  const query = [labels && `labels ${labels}`, fields && `fields ${fields}`].filter(part => part !== '')
  return [`${model.apiVersion}/${model.plural}`, ...query].join(' ')
}

/**
 * Shares informers: one for each model, selectors and transform in use.
 *
 * Guarantees
 * - Two leases of the same key share one informer, so one watch and one copy of the objects. The informer has the
 *   indexes of both declarations of the model. Only if two of them have the same name, but are not the same, it is not
 *   shared.
 * - The last release stops the informer and closes its watch; a later lease starts a new one.
 */
export class InformerPool {
  readonly #options: Omit<InformerOptions, keyof InformerSelection>
  /** By key. The informers of one key differ in their transforms, or in indexes of the same name. */
  readonly #shared = new Map<string, SharedInformer[]>()
  #started = false

  constructor(options: Omit<InformerOptions, keyof InformerSelection>) {
    this.#options = options
  }

  /** All informers in use. */
  get informers(): readonly Informer[] {
    return [...this.#shared.values()].flatMap(entries => entries.map(({ informer }) => informer))
  }

  /** @throws SelectorError if a selector is invalid. */
  acquire<T extends ApiObject>(model: Model<T>, selection: InformerSelection<T> = {}): InformerLease<T> {
    const key = informerKey(model, selection)
    const entries = this.#shared.get(key) ?? []
    for (const entry of entries) {
      const { informer, transform } = entry
      if (transform !== selection.transform || !holds(informer, model)) continue
      if (informer.addIndexesOf(model)) return this.#lease(key, entry, informer)
    }
    const informer = new Informer(model, { ...this.#options, ...selection })
    const entry: SharedInformer = { informer, transform: selection.transform, users: 0 }
    this.#shared.set(key, [...entries, entry])
    if (this.#started) informer.start()
    return this.#lease(key, entry, informer)
  }

  /** Starts the informers in use; later ones start with their first lease. */
  start(): void {
    this.#started = true
    for (const informer of this.informers) informer.start()
  }

  /** Stops every informer, in use or not. */
  async stop(): Promise<void> {
    const { informers } = this
    this.#shared.clear()
    await Promise.all(informers.map(informer => informer.stop()))
  }

  #lease<T extends ApiObject>(key: string, entry: SharedInformer, informer: Informer<T>): InformerLease<T> {
    entry.users++
    let released = false
    return {
      informer,
      release: async () => {
        if (released) return
        released = true
        if (--entry.users > 0) return
        const left = (this.#shared.get(key) ?? []).filter(other => other !== entry)
        if (left.length > 0) this.#shared.set(key, left)
        else this.#shared.delete(key)
        await informer.stop()
      },
    }
  }
}

interface SharedInformer {
  readonly informer: Informer
  /** Only compared, never called. */
  readonly transform: unknown
  users: number
}

/** All declarations of a kind have the same object type. */
function holds<T extends ApiObject>(informer: Informer, model: Model<T>): informer is Informer<T> {
  return informer.model.apiVersion === model.apiVersion && informer.model.plural === model.plural
}

function texts(selector: string | readonly string[] | undefined): readonly string[] {
  return selector === undefined ? [] : typeof selector === 'string' ? [selector] : selector
}

function canonical(requirements: readonly Requirement[]): string {
  const terms = requirements.map(({ key, operator, values }) =>
    formatRequirements([{ key, operator, values: [...values].sort() }]),
  )
  return [...new Set(terms)].sort().join(',')
}
