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

/** Which objects an informer copies, and what of them. Informers are shared only where `transform` is the same function. */
export interface InformerSelection<T extends ApiObject = ApiObject>
  extends SelectorOptions,
    TransformOption<T> {}

/** A use of a shared informer. */
export interface InformerLease<T extends ApiObject = ApiObject> {
  readonly informer: Informer<T>
  /**
   * Ends this use; the last one to end stops the informer and closes its watch. Calling it again changes nothing.
   * Handlers that the user added are his to remove before.
   */
  release(): Promise<void>
}

/**
 * What tells one cache from another: the model as the server knows it, and the selectors by what they mean. The same
 * for a model that was declared twice, and however the terms of the selectors are ordered, spelled and repeated.
 * @throws SelectorError where a selector does not parse.
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
 * Informers that are shared: one for each model, selectors and transform that somebody uses, started with the pool and
 * stopped with its last user.
 *
 * Guarantees
 * - Two leases of one key have one informer, hence one watch and one copy of the objects.
 * - The informer is stopped, and its watch closed, when the last lease is released; a later lease gets a new one.
 */
export class InformerPool {
  readonly #options: Omit<InformerOptions, keyof InformerSelection>
  /** Those of one key differ in their transforms. */
  readonly #shared = new Map<string, SharedInformer[]>()
  #started = false

  constructor(options: Omit<InformerOptions, keyof InformerSelection>) {
    this.#options = options
  }

  /** Every informer that somebody uses. */
  get informers(): readonly Informer[] {
    return [...this.#shared.values()].flatMap(entries => entries.map(({ informer }) => informer))
  }

  /** @throws SelectorError where a selector does not parse. */
  acquire<T extends ApiObject>(model: Model<T>, selection: InformerSelection<T> = {}): InformerLease<T> {
    const key = informerKey(model, selection)
    const entries = this.#shared.get(key) ?? []
    for (const entry of entries) {
      if (entry.transform === selection.transform && holds(entry.informer, model)) {
        return this.#lease(key, entry, entry.informer)
      }
    }
    const informer = new Informer(model, { ...this.#options, ...selection })
    const entry: SharedInformer = { informer, transform: selection.transform, users: 0 }
    this.#shared.set(key, [...entries, entry])
    if (this.#started) informer.start()
    return this.#lease(key, entry, informer)
  }

  /** Starts the informers that are in use, and from now on each with its first lease. */
  start(): void {
    this.#started = true
    for (const informer of this.informers) informer.start()
  }

  /** Stops every informer, whoever uses it. */
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
  /** Compared, never called. */
  readonly transform: unknown
  users: number
}

/** Objects of one kind have one type, whichever declaration of the model names it. */
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
