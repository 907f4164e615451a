import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { HandlerRegistration, Informer, Lister } from '../cache/informer.ts'
import type { InformerSelection } from '../cache/informer-pool.ts'
import type { Logger } from '../logger.ts'
import { type Filter, type Predicate, toPredicate } from './predicates.ts'

/** Where a controller gets the informers that it reads: shared with others by whoever provides them. */
export interface InformerSource {
  informer<T extends ApiObject>(model: Model<T>, selection?: InformerSelection<T>): Informer<T>
}

/** Names of objects of the controller's own model. */
export type MappedNames = string | Iterable<string> | undefined

/** What a mapping function gets beside the object. */
export interface MapContext {
  /**
   * Reads a kind that the controller reads, owns or watches, or its own. An index over it answers what a search through
   * all objects would for each event.
   */
  lister<T extends ApiObject>(model: Model<T>): Lister<T>
}

/**
 * Which objects of the controller's model an object of another one concerns. It answers at once: what it needs comes
 * from listers.
 */
export type MapToNames<T extends ApiObject> = (object: T, context: MapContext) => MappedNames

/** Which objects of another kind a controller hears of. */
export interface InputOptions<T extends ApiObject> extends InformerSelection<T> {
  /** Which events count; by default all. */
  readonly filter?: Filter<T>
}

/** Which dependents a controller hears of, and of which owners. */
export interface OwnsOptions<T extends ApiObject> extends InputOptions<T> {
  /** Every owner of the controller's kind hears of its dependents, not only the one marked `controller`. */
  readonly matchEveryOwner?: boolean
}

/** What an input does with its events. */
export interface InputSink extends MapContext {
  readonly log: Logger
  enqueue(name: string, initial: boolean, reason: string): void
}

/** A kind that a controller reads beside its own. */
export interface ControllerInput {
  readonly model: Model
  readonly selection: InformerSelection
  /** Begins to use an informer, which is not started here. */
  attach(informers: InformerSource): AttachedInput
}

export interface AttachedInput {
  readonly informer: Informer
  /** Begins to tell of events. Without it the kind is only read. */
  listen?(sink: InputSink): HandlerRegistration
}

/** A kind that is only read. */
export function readingInput<T extends ApiObject>(
  model: Model<T>,
  selection: InformerSelection<T>,
): ControllerInput {
  return { model, selection, attach: informers => ({ informer: informers.informer(model, selection) }) }
}

/** A kind whose events are mapped to names. */
export function mappedInput<T extends ApiObject>(
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
      return { informer, listen: sink => informer.addHandler(handlerOf(model, map, predicate, sink)) }
    },
  }
}

/** Dependents, mapped to their owners of the controller's kind: by group and kind, whatever the version. */
export function ownedInput<T extends ApiObject>(
  owner: Model,
  dependent: Model<T>,
  { matchEveryOwner = false, ...options }: OwnsOptions<T>,
): ControllerInput {
  const owners = ({ metadata: { ownerReferences = [] } }: T) =>
    ownerReferences.flatMap(({ apiVersion, kind, name, controller }) =>
      kind === owner.kind && groupOf(apiVersion) === owner.group && (matchEveryOwner || controller === true)
        ? [name]
        : [],
    )
  return mappedInput(dependent, owners, options)
}

function handlerOf<T extends ApiObject>(
  model: Model<T>,
  map: MapToNames<T>,
  predicate: Predicate<T>,
  sink: InputSink,
) {
  const enqueue = (objects: readonly T[], initial: boolean, reason: string) => {
    const names = new Set<string>()
    for (const object of objects) {
      try {
        for (const name of namesIn(map(object, sink))) names.add(name)
      } catch (error) {
        sink.log.error({ err: error, kind: model.kind, object: object.metadata.name }, 'a mapping failed')
      }
    }
    for (const name of names) sink.enqueue(name, initial, reason)
  }
  const passes = (object: T, test: () => boolean | undefined) => {
    try {
      return test() ?? true
    } catch (error) {
      const fields = { err: error, kind: model.kind, object: object.metadata.name }
      sink.log.error(fields, 'a filter failed; the event passes')
      return true
    }
  }
  const { kind } = model
  const [added, updated, deleted] = [`${kind} added`, `${kind} updated`, `${kind} deleted`]
  return {
    onAdd(object: T, { initial }: { readonly initial: boolean }) {
      if (passes(object, () => predicate.add?.(object))) enqueue([object], initial, added)
    },
    // Whom it concerned before needs to know as much as whom it concerns now.
    onUpdate(before: T, after: T) {
      if (passes(after, () => predicate.update?.(before, after))) enqueue([before, after], false, updated)
    },
    onDelete(object: T) {
      if (passes(object, () => predicate.delete?.(object))) enqueue([object], false, deleted)
    },
  }
}

/** @throws TypeError for what are no names. */
function namesIn(mapped: unknown): readonly string[] {
  if (mapped === undefined || mapped === null) return []
  if (typeof mapped === 'string') return [mapped]
  const names: unknown[] = isIterable(mapped) ? [...mapped] : [mapped]
  return names.map(name => {
    if (typeof name === 'string') return name
    throw new TypeError('a mapping must answer names, at once and not as a promise')
  })
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value
}

function groupOf(apiVersion: string): string {
  const at = apiVersion.indexOf('/')
  return at === -1 ? '' : apiVersion.slice(0, at)
}
