import { isDeepStrictEqual } from 'node:util'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { ApiObject } from '../api/object.ts'
import { matchesAll, parseLabelSelector } from '../api/selector.ts'

/** Returns true if the change from `before` to `after` triggers a reconcile. If it throws, the change passes. */
export type UpdatePredicate<T extends ApiObject = ApiObject> = (
  before: DeepReadonly<T>,
  after: DeepReadonly<T>,
) => boolean

/**
 * Decides which events trigger a reconcile. Events without a method pass; `and`, `or` and `not` ignore missing methods.
 * If a method throws, the event passes.
 */
export interface Predicate<T extends ApiObject = ApiObject> {
  // Methods for bivariance: a predicate over any object is usable for a specific type.
  add?(object: DeepReadonly<T>): boolean
  update?(before: DeepReadonly<T>, after: DeepReadonly<T>): boolean
  /** `object` is the last known state. */
  delete?(object: DeepReadonly<T>): boolean
}

const predicateKeys: KeysOf<Predicate> = { add: true, update: true, delete: true }

/** A predicate; a plain function filters updates. */
export type Filter<T extends ApiObject = ApiObject> = Predicate<T> | UpdatePredicate<T>

/** Passes every update, including those of the status. */
export const anyChange: UpdatePredicate = () => true

/**
 * The default: passes every update except those of only the status, because a reconciler that writes the status would
 * trigger itself. As in java-operator-sdk's generation-aware filter, updates of finalizers and the start of deletion
 * pass; so do those of labels, annotations and owners.
 */
export const changedBeyondStatus: UpdatePredicate = (before, after) =>
  !isDeepStrictEqual(desired(before), desired(after))

/**
 * Passes updates that increase the generation: of anything but metadata and, if it is a subresource, the status. The
 * start of a deletion always passes. Objects of built-in kinds have no generation, so their content is compared.
 */
export const generationChanged: UpdatePredicate = (before, after) =>
  after.metadata.generation === undefined
    ? !isDeepStrictEqual(withoutMetadata(before), withoutMetadata(after))
    : before.metadata.generation !== after.metadata.generation

/** Passes updates of the given labels, by default of any. */
export function labelsChanged(...keys: readonly string[]): UpdatePredicate {
  return (before, after) => differ(before.metadata.labels, after.metadata.labels, keys)
}

/** Passes updates of the given annotations, by default of any. */
export function annotationsChanged(...keys: readonly string[]): UpdatePredicate {
  return (before, after) => differ(before.metadata.annotations, after.metadata.annotations, keys)
}

/** Passes objects that satisfy `test`. An update passes if either state does, so leaving the set is noticed. */
export function matching<T extends ApiObject>(
  test: (object: DeepReadonly<T>) => boolean,
): Required<Predicate<T>> {
  return {
    add: object => test(object),
    update: (before, after) => test(after) || test(before),
    delete: object => test(object),
  }
}

/**
 * Passes objects whose labels match the selector; see `matching`.
 * @throws SelectorError if the selector is invalid.
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

/** Passes events that all filters pass. */
export function and<T extends ApiObject>(...filters: readonly Filter<T>[]): Predicate<T> {
  return join(filters, (opinions, hear) => opinions.every(hear))
}

/** Passes events that at least one filter passes. */
export function or<T extends ApiObject>(...filters: readonly Filter<T>[]): Predicate<T> {
  return join(filters, (opinions, hear) => opinions.some(hear))
}

/** Passes events that the filter does not pass. */
export function not<T extends ApiObject>(filter: Filter<T>): Predicate<T> {
  return join([filter], (opinions, hear) => !opinions.every(hear))
}

/** Returns a filter as a predicate. @throws TypeError for a plain object with other keys than those of a predicate. */
export function toPredicate<T extends ApiObject>(filter: Filter<T>): Predicate<T> {
  if (typeof filter === 'function') return { update: filter }
  // A predicate of a class may have fields of its own.
  if (Object.getPrototypeOf(filter) === Object.prototype) refuseUnknownKeys(filter, predicateKeys, 'filter')
  return filter
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
    ...(adds.length > 0 && { add: (object: DeepReadonly<T>) => decide(adds, add => add(object)) }),
    ...(updates.length > 0 && {
      update: (before: DeepReadonly<T>, after: DeepReadonly<T>) =>
        decide(updates, update => update(before, after)),
    }),
    ...(deletes.length > 0 && {
      delete: (object: DeepReadonly<T>) => decide(deletes, remove => remove(object)),
    }),
  }
}

function differ(
  before: Readonly<Record<string, string>> = {},
  after: Readonly<Record<string, string>> = {},
  keys: readonly string[],
): boolean {
  return keys.length === 0 ? !isDeepStrictEqual(before, after) : keys.some(key => before[key] !== after[key])
}

/** The content without the status, and whether the object is being deleted. */
function withoutMetadata({ status: _status, metadata, ...content }: DeepReadonly<ApiObject>): object {
  return { ...content, isDeleting: metadata.deletionTimestamp !== undefined }
}

function desired({ status: _status, metadata, ...content }: DeepReadonly<ApiObject>): object {
  const { version: _version, resourceVersion: _resourceVersion, generation: _generation, ...meta } = metadata
  return { ...content, metadata: meta }
}
