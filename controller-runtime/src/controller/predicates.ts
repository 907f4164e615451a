import { isDeepStrictEqual } from 'node:util'
import type { ApiObject } from '../api/object.ts'
import { matchesAll, parseLabelSelector } from '../api/selector.ts'

/** Whether the change from `before` to `after` concerns a controller. Must not throw; one that does lets the change pass. */
export type UpdatePredicate<T extends ApiObject = ApiObject> = (before: T, after: T) => boolean

/**
 * Which events concern a controller. About an event whose method is absent a predicate says nothing: it passes, unless
 * another predicate that this one is joined with says otherwise. Must not throw; one that does lets the event pass.
 */
export interface Predicate<T extends ApiObject = ApiObject> {
  // Methods on purpose: a predicate over any object is usable where one over a specific type is expected.
  add?(object: T): boolean
  update?(before: T, after: T): boolean
  /** `object` is the last state that is known. */
  delete?(object: T): boolean
}

/** A function alone is about updates. */
export type Filter<T extends ApiObject = ApiObject> = Predicate<T> | UpdatePredicate<T>

/** Every change, status and all. */
export const anyChange: UpdatePredicate = () => true

/**
 * The default: every change but one of the status alone. The status is what reconcilers write; one that was woken by
 * its own status would never come to rest. As in java-operator-sdk's generation-aware filter, a change of finalizers
 * and the start of deletion pass; labels, annotations and owners do too.
 */
export const changedBeyondStatus: UpdatePredicate = (before, after) =>
  !isDeepStrictEqual(desired(before), desired(after))

/**
 * A change of what is desired: of anything but metadata and, where it is a subresource, the status. The start of a
 * deletion raises the generation too, and a controller hears of it whatever its filter.
 */
export const generationChanged: UpdatePredicate = (before, after) =>
  before.metadata.generation !== after.metadata.generation

/** A change of any label, or of one of those that are named. */
export function labelsChanged(...keys: readonly string[]): UpdatePredicate {
  return (before, after) => differ(before.metadata.labels, after.metadata.labels, keys)
}

/** A change of any annotation, or of one of those that are named. */
export function annotationsChanged(...keys: readonly string[]): UpdatePredicate {
  return (before, after) => differ(before.metadata.annotations, after.metadata.annotations, keys)
}

/**
 * Objects that `test` says yes to. Of an update either state is enough, so that one that ceases to match is noticed.
 */
export function matching<T extends ApiObject>(test: (object: T) => boolean): Required<Predicate<T>> {
  return {
    add: object => test(object),
    update: (before, after) => test(after) || test(before),
    delete: object => test(object),
  }
}

/**
 * Objects whose labels match, as `matching` does.
 * @throws SelectorError when the selector does not parse.
 */
export function matchingLabels(selector: string): Required<Predicate> {
  const requirements = parseLabelSelector(selector)
  return matching(({ metadata: { labels } }) =>
    matchesAll(requirements, key => {
      const value = labels && Object.hasOwn(labels, key) ? labels[key] : undefined
      return value === undefined ? [] : [value]
    }),
  )
}

/** What passes all of them that have something to say about the event. */
export function and<T extends ApiObject>(...filters: readonly Filter<T>[]): Predicate<T> {
  return join(filters, (opinions, hear) => opinions.every(hear))
}

/** What passes one of them that have something to say about the event. */
export function or<T extends ApiObject>(...filters: readonly Filter<T>[]): Predicate<T> {
  return join(filters, (opinions, hear) => opinions.some(hear))
}

/** The opposite, about the events that the predicate has something to say about. */
export function not<T extends ApiObject>(filter: Filter<T>): Predicate<T> {
  return join([filter], (opinions, hear) => !opinions.every(hear))
}

/** A filter as a predicate. */
export function toPredicate<T extends ApiObject>(filter: Filter<T>): Predicate<T> {
  return typeof filter === 'function' ? { update: filter } : filter
}

type Decide = <F>(opinions: readonly F[], hear: (opinion: F) => boolean) => boolean

function join<T extends ApiObject>(filters: readonly Filter<T>[], decide: Decide): Predicate<T> {
  const predicates = filters.map(toPredicate)
  const adds = predicates.flatMap(({ add }, at) => (add ? [add.bind(predicates[at])] : []))
  const updates = predicates.flatMap(({ update }, at) => (update ? [update.bind(predicates[at])] : []))
  const deletes = predicates.flatMap((predicate, at) =>
    predicate.delete ? [predicate.delete.bind(predicates[at])] : [],
  )
  return {
    ...(adds.length > 0 && { add: (object: T) => decide(adds, add => add(object)) }),
    ...(updates.length > 0 && {
      update: (before: T, after: T) => decide(updates, update => update(before, after)),
    }),
    ...(deletes.length > 0 && { delete: (object: T) => decide(deletes, remove => remove(object)) }),
  }
}

function differ(
  before: Readonly<Record<string, string>> = {},
  after: Readonly<Record<string, string>> = {},
  keys: readonly string[],
): boolean {
  return keys.length === 0 ? !isDeepStrictEqual(before, after) : keys.some(key => before[key] !== after[key])
}

function desired({ status: _status, metadata, ...content }: ApiObject): object {
  const { version: _version, resourceVersion: _resourceVersion, generation: _generation, ...meta } = metadata
  return { ...content, metadata: meta }
}
