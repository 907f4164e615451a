import type { DeepReadonly } from '../api/deep-readonly.ts'
import type { KeysOf } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import { groupOf } from '../api/owners.ts'
import type { HandlerRegistration, Informer, Lister } from '../cache/informer.ts'
import type { InformerSelection } from '../cache/informer-pool.ts'
import type { Logger } from '../logger.ts'
import { type Filter, type Predicate, toPredicate } from './predicates.ts'

/** Provides the informers that a controller reads; they may be shared. */
export interface InformerSource {
  informer<T extends ApiObject>(model: Model<T>, selection?: InformerSelection<T>): Informer<T>
}

/**
 * Names of objects of the controller's own model. If that is namespaced: keys `<namespace>/<name>`, or names in the
 * namespace of the mapped object.
 */
export type MappedNames = string | Iterable<string> | undefined

/** What a mapping function receives besides the object. */
export interface MapContext {
  /**
   * Returns a cache as `ReconcileContext.lister` does. It resolves at once: the controller's own writes may be missing,
   * and their events follow. Use an index rather than searching all objects for each event.
   * @throws TypeError for a kind that the controller does not read.
   */
  lister<T extends ApiObject>(model: Model<T>): Promise<Lister<T>>
}

/**
 * Maps an object of another kind to names of objects of the controller's model. It reads other objects through listers.
 */
export type MapToNames<T extends ApiObject> = (
  object: DeepReadonly<T>,
  context: MapContext,
) => MappedNames | Promise<MappedNames>

/** Which objects and events of another kind a controller receives. */
export interface InputOptions<T extends ApiObject> extends InformerSelection<T> {
  /** Which events count. Default: of `owns` all, of `watches` all except updates of only the status. */
  readonly filter?: Filter<T>
}

/** Which dependents a controller receives, and which owners they map to. */
export interface OwnsOptions<T extends ApiObject> extends InputOptions<T> {
  /** Maps to every owner of the controller's kind, not only the one with `controller: true`. */
  readonly matchEveryOwner?: boolean
}

export const selectionKeys: KeysOf<InformerSelection> = {
  labelSelector: true,
  fieldSelector: true,
  transform: true,
}
export const inputKeys: KeysOf<InputOptions<ApiObject>> = { ...selectionKeys, filter: true }
export const ownsKeys: KeysOf<OwnsOptions<ApiObject>> = { ...inputKeys, matchEveryOwner: true }

/** Receives the events of an input. */
export interface InputSink extends MapContext {
  readonly log: Logger
  enqueue(key: ObjectKey, initial: boolean, reason: string): void
}

/** Another kind that a controller reads. */
export interface ControllerInput {
  readonly model: Model
  readonly selection: InformerSelection
  /** Acquires the informer without starting it. */
  attach(informers: InformerSource): AttachedInput
}

export interface AttachedInput {
  readonly informer: Informer
  /** Starts to report events. Absent if the kind is only read. */
  listen?(sink: InputSink): HandlerRegistration
}

/** Creates an input that is only read. */
export function readingInput<T extends ApiObject>(
  model: Model<T>,
  selection: InformerSelection<T>,
): ControllerInput {
  return { model, selection, attach: informers => ({ informer: informers.informer(model, selection) }) }
}

/** Creates an input whose events are mapped to names of `target`. */
export function mappedInput<T extends ApiObject>(
  target: Model,
  model: Model<T>,
  map: MapToNames<T>,
  { filter, ...selection }: InputOptions<T>,
): ControllerInput {
  const predicate: Predicate<T> = filter === undefined ? {} : toPredicate(filter)
  return {
    model,
    selection,
    attach(informers) {
      const informer = informers.informer(model, selection)
      return { informer, listen: sink => informer.addHandler(handlerOf(target, model, map, predicate, sink)) }
    },
  }
}

/** Creates an input that maps dependents to owners of the controller's kind, by group and kind, of any version. */
export function ownedInput<T extends ApiObject>(
  owner: Model,
  dependent: Model<T>,
  { matchEveryOwner = false, ...options }: OwnsOptions<T>,
): ControllerInput {
  const owners = ({ metadata }: DeepReadonly<T>) =>
    (metadata.ownerReferences ?? []).flatMap(({ apiVersion, kind, name, controller }) =>
      kind === owner.kind && groupOf(apiVersion) === owner.group && (matchEveryOwner || controller === true)
        ? [name]
        : [],
    )
  return mappedInput(owner, dependent, owners, options)
}

function handlerOf<T extends ApiObject>(
  target: Model,
  model: Model<T>,
  map: MapToNames<T>,
  predicate: Predicate<T>,
  sink: InputSink,
) {
  const enqueue = (objects: readonly DeepReadonly<T>[], initial: boolean, reason: string) => {
    const enqueued = new Set<string>()
    for (const object of objects) {
      const enqueueAll = (mapped: unknown) => {
        for (const name of namesIn(mapped)) {
          const key = keyIn(target, name, object)
          if (enqueued.has(key)) continue
          enqueued.add(key)
          sink.enqueue(key, initial, reason)
        }
      }
      const fail = (error: unknown) => {
        const fields = { err: error, kind: model.kind, object: objectKey(object.metadata) }
        sink.log.error(fields, 'event mapping failed')
      }
      try {
        const mapped = map(object, sink)
        // Not awaited: a mapping that never settles must not delay other events.
        if (mapped instanceof Promise) mapped.then(enqueueAll).catch(fail)
        else enqueueAll(mapped)
      } catch (error) {
        fail(error)
      }
    }
  }
  const passes = (object: DeepReadonly<T>, test: () => boolean | undefined) => {
    try {
      return test() ?? true
    } catch (error) {
      const fields = { err: error, kind: model.kind, object: objectKey(object.metadata) }
      sink.log.error(fields, 'event filter failed, reconciling anyway')
      return true
    }
  }
  const { kind } = model
  const [added, updated, deleted] = [`${kind} added`, `${kind} updated`, `${kind} deleted`]
  return {
    onAdd(object: DeepReadonly<T>, { initial }: { readonly initial: boolean }) {
      if (passes(object, () => predicate.add?.(object))) enqueue([object], initial, added)
    },
    // Objects that the previous state mapped to are reconciled too.
    onUpdate(before: DeepReadonly<T>, after: DeepReadonly<T>) {
      if (passes(after, () => predicate.update?.(before, after))) enqueue([before, after], false, updated)
    },
    onDelete(object: DeepReadonly<T>) {
      if (passes(object, () => predicate.delete?.(object))) enqueue([object], false, deleted)
    },
  }
}

/** @throws TypeError for a name without a namespace, from an object without one. */
function keyIn({ scope, kind }: Model, name: string, { metadata }: DeepReadonly<ApiObject>): ObjectKey {
  if (scope !== 'Namespaced' || name.includes('/')) return name
  const { namespace } = metadata
  if (namespace !== undefined) return objectKey({ namespace, name })
  throw new TypeError(`a mapping to the namespaced kind ${kind} must return <namespace>/<name>, not ${name}`)
}

/** @throws TypeError if the value is not a name or an iterable of names. */
function namesIn(mapped: unknown): readonly string[] {
  if (mapped === undefined || mapped === null) return []
  if (typeof mapped === 'string') return [mapped]
  const names: unknown[] = isIterable(mapped) ? [...mapped] : [mapped]
  return names.map(name => {
    if (typeof name === 'string') return name
    throw new TypeError('a mapping must return names: a string, strings, or undefined')
  })
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value
}
