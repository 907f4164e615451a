import type { ApiError, HookViolation, StatusCause } from '@setpoint/controller-runtime/api'
import {
  type BareMeta,
  type BareObject,
  countParts,
  countValues,
  deepEqual,
  encodeObject,
  objectLimits,
  partsName,
  type Reservations,
  runAdmitHook,
  runDefaultHook,
  runValidateHook,
  type Scope,
  type ServedModel,
  type ServedVersion,
  type StoredObject,
  valuesName,
} from '../model/index.ts'
import { keepTimes } from './apply/index.ts'
import { checkMetaAsKubernetes, checkScaled } from './as-in-kubernetes.ts'
import { Causes } from './causes.ts'
import type { ClientObject } from './client-object.ts'
import { composeObject, orderMetadata } from './compose-object.ts'
import { differenceOf, onlyTakesAwayFinalizers } from './difference.ts'
import { indexDraft } from './index-draft.ts'
import { checkMetadata, checkObjectName, finalizerWarnings, keepNotes } from './metadata.ts'
import { invalid } from './refusals.ts'
import { violationsLeft } from './violations.ts'
import { serverUser, type WriteOptions } from './write-options.ts'

/** An object that has passed every check and is ready to be stored. */
export interface Draft {
  readonly object: BareObject
  /** The object's JSON at the hub. The response contains it, and the stored bytes if objects are stored in the hub. */
  readonly json: string
  /** The JSON to store, if the content stays as it is stored: in another version than the hub, or not pruned. */
  readonly rawJson?: string
  /** The unique values that the object must hold. */
  readonly reservations: Reservations
  /**
   * Values that the object has without holding them, because stored data clashed when the index came into force. The
   * write takes those that are free now, and does not fail for the others.
   */
  readonly claims?: Reservations
  /** True if the reservations were computed by this server's unique indexes. False if it keeps the recorded ones. */
  readonly isIndexed: boolean
  readonly warnings: readonly string[]
}

/** @throws ApiError 422; ConversionError; ConversionNeeded */
export function draftCreation(
  served: ServedModel,
  name: string,
  client: ClientObject,
  options: WriteOptions,
  environment: {
    readonly uid: string
    readonly now: number
    readonly reservedDomain: string
    readonly managedFields?: BareMeta['managedFields']
  },
): Draft {
  const { meta, content } = client
  const causes = new Causes(client.causes)
  const nameCause = checkObjectName(name, served.model.names)
  if (nameCause !== undefined) {
    causes.add(nameCause)
    if (served.defined !== undefined && meta.generateName !== undefined)
      causes.add({ ...nameCause, field: 'metadata.generateName' })
  }
  const metadata = orderMetadata({
    name,
    namespace: served.indexes.isNamespaced ? options.namespace : undefined,
    generateName: meta.generateName,
    uid: environment.uid,
    generation: served.hasGeneration ? 1 : undefined,
    creationTimestamp: new Date(environment.now).toISOString(),
    finalizers: meta.finalizers,
    ownerReferences: meta.ownerReferences,
    labels: meta.labels,
    annotations: options.isService
      ? meta.annotations
      : keepNotes(meta.annotations, undefined, environment.reservedDomain),
    managedFields: environment.managedFields,
  })
  const { reservedDomain } = environment
  checkMetadata(metadata, undefined, { plugin: options.plugin, reservedDomain }, causes)
  checkMetaAsKubernetes(served, metadata, undefined, causes)
  const { status, ...withoutStatus } = content
  const { version = served.hub } = options
  const created = version.hasStatus ? withoutStatus : content
  const converted = contentAtHub(served, metadata, created, undefined, causes, options)
  const object = composeObject(served.hub, converted?.metadata ?? metadata, converted?.content ?? {})
  served.rules?.created?.(object)
  const defaulted = served.schemas.prune(served.schemas.withDefaults(object))
  const completed = withHook(served, defaulted, undefined, 'object', causes)
  return finishDraft(served, completed, undefined, 'object', causes, options)
}

/** The stored object as a request sees it, in the version of its path. */
export interface StoredView {
  readonly view: BareObject
  /** Set if the object cannot be converted to that version. `view` then has the content of the hub. */
  readonly failure?: ApiError
}

/** The parts of an object at the hub. */
interface AtHub {
  /** The given one, with the labels and annotations of the conversion. */
  readonly metadata: BareMeta
  readonly content: Record<string, unknown>
}

/**
 * Converts content of the request's version to the hub, after its version's defaults and checks. Content that equals
 * the stored one in that version is not converted, so that a change of the metadata loses nothing: the result is
 * undefined.
 * @throws ApiError 422 with the violations of the version's schema; ConversionError; ConversionNeeded
 */
function contentAtHub(
  served: ServedModel,
  metadata: BareMeta,
  content: Record<string, unknown>,
  stored: (StoredView & { readonly hub: BareObject | undefined }) | undefined,
  causes: Causes,
  options: WriteOptions,
): AtHub | undefined {
  const { version = served.hub } = options
  if (version.isHub && stored?.failure === undefined) return { metadata, content }
  const object = composeObject(version, metadata, content)
  if (stored !== undefined && convertsTheSame(version, object, stored.view)) return undefined
  if (stored?.failure !== undefined) throw stored.failure
  if (causes.stops) throw invalid(served, metadata.name, causes)
  const completed = version.schemas.withDefaults(object)
  for (const violation of violationsLeft(version.schemas, completed, stored?.view)) causes.add(violation)
  if (!causes.isEmpty) throw invalid(served, metadata.name, causes)
  const { metadata: converted, ...atHub } = version.toHub(completed, stored?.hub)
  return {
    metadata: withLabelsOf(version, metadata, converted),
    // A webhook may return nulls.
    content: version.convertsMetadata ? served.hub.withoutNulls(atHub) : atHub,
  }
}

/** Returns the metadata of the stored object as a request to a version sees it. */
export function ownedMetadata(version: ServedVersion, stored: StoredObject, seen: StoredView): BareMeta {
  return withLabelsOf(version, stored.object.metadata, seen.view.metadata)
}

/**
 * Returns metadata with the labels and annotations that an object has in another version, if conversions change them.
 */
function withLabelsOf(version: ServedVersion, metadata: BareMeta, other: BareMeta): BareMeta {
  if (!version.convertsMetadata) return metadata
  const { labels, annotations } = other
  return orderMetadata({ ...metadata, labels, annotations })
}

/** Returns true if two objects of a version differ in nothing that a conversion may change. */
function convertsTheSame(version: ServedVersion, left: BareObject, right: BareObject): boolean {
  const isSame = ({ labels, annotations }: BareMeta, other: BareMeta) =>
    deepEqual(labels, other.labels) && deepEqual(annotations, other.annotations)
  return (
    deepEqual({ ...left, metadata: undefined }, { ...right, metadata: undefined }) &&
    (!version.convertsMetadata || isSame(left.metadata, right.metadata))
  )
}

/** Returns the managed fields of an object that a write has made, before the model's hook completes it. */
export type OwnersAfter = (object: BareObject) => BareMeta['managedFields']

/**
 * Returns the object that an update would store, or undefined if nothing changes.
 * @param ownersAfter undefined if the object has no managed fields
 */
export function draftUpdate(
  served: ServedModel,
  stored: StoredObject,
  client: ClientObject,
  scope: Scope,
  options: WriteOptions,
  reservedDomain: string,
  seen: StoredView = { view: stored.object },
  ownersAfter?: OwnersAfter,
): Draft | undefined {
  const { object: previous } = stored
  // The managed fields of an object that cannot be converted stay as they are.
  const owners = stored.failure === undefined ? ownersAfter : undefined
  const { meta, content } = client
  const { version = served.hub } = options
  const owned = ownedMetadata(version, stored, seen)
  const causes = new Causes(client.causes)
  const metadata = metadataAfter(served, owned, meta, scope, options, reservedDomain)
  checkMetadata(metadata, owned, { plugin: options.plugin, reservedDomain }, causes)
  checkMetaAsKubernetes(served, metadata, owned, causes)
  // Further checks walk over what is too large.
  if (causes.stops) throw invalid(served, owned.name, causes)
  const sent = contentOf(version, seen.view, content, scope)
  const hub = stored.failure === undefined ? previous : undefined
  const converted = contentAtHub(served, metadata, sent, { ...seen, hub }, causes, options)
  const next = hub && converted && contentOf(version, hub, converted.content, scope)
  const object =
    converted === undefined
      ? { ...previous, metadata: withLabelsOf(version, metadata, previous.metadata) }
      : composeObject(served.hub, converted.metadata, next ?? converted.content)
  served.rules?.updated?.(object, previous, scope)
  const difference = differenceOf(object, previous)
  if (onlyTakesAwayFinalizers(object, previous, difference)) {
    // No schema or index may block this, or objects could become undeletable.
    if (!causes.isEmpty) throw invalid(served, owned.name, causes)
    const next = owners === undefined ? object : withOwners(object, previous, owners(object))
    const { finalizers, managedFields } = next.metadata
    const isSame = finalizers?.length === owned.finalizers?.length
    if (managedFields === previous.metadata.managedFields)
      return isSame ? undefined : unindexedDraft(served, next, stored)
    checkParts(next, previous, causes)
    if (causes.isEmpty) return unindexedDraft(served, next, stored)
    if (isSame) throw invalid(served, owned.name, causes)
    // Managed fields that are too large do not block the removal of a finalizer either.
    return unindexedDraft(served, object, stored)
  }
  if (seen.failure !== undefined) throw seen.failure
  if (stored.failure !== undefined && converted === undefined) throw stored.failure
  if (options.onlyLettingGo !== undefined) throw options.onlyLettingGo
  const defaulted = served.schemas.prune(served.schemas.withDefaults(object))
  const hooked = withHook(served, defaulted, hub, scope, causes)
  const completed = owners === undefined ? hooked : withOwners(hooked, previous, owners(defaulted))
  const differs = completed === object ? difference : differenceOf(completed, previous)
  const isDesired = differs.content || (differs.status && !version.hasStatus)
  if (scope === 'object' && isDesired && served.hasGeneration)
    completed.metadata.generation = generationAfter(owned)
  const isChanged = isDesired || differs.status || differs.metadata || differs.finalizers
  const draft = finishDraft(served, completed, stored, scope, causes, options)
  return isChanged ? draft : undefined
}

/** Returns the metadata of a stored object after a write of a scope. */
export function metadataAfter(
  served: ServedModel,
  owned: BareMeta,
  { finalizers, ownerReferences, labels, annotations }: ClientObject['meta'],
  scope: Scope,
  { isService }: WriteOptions,
  reservedDomain: string,
): BareMeta {
  if (!served.takesMetadata(scope)) return owned
  return orderMetadata({
    ...owned,
    finalizers,
    ownerReferences,
    labels,
    annotations: isService ? annotations : keepNotes(annotations, owned.annotations, reservedDomain),
  })
}

/** Returns an object with its managed fields. Their times do not change alone. */
function withOwners(object: BareObject, previous: BareObject, next: BareMeta['managedFields']): BareObject {
  const { managedFields: stored, ...before } = previous.metadata
  const { managedFields: _stored, ...metadata } = object.metadata
  const isSame = deepEqual({ ...object, metadata }, { ...previous, metadata: before })
  return {
    ...object,
    metadata: orderMetadata({ ...metadata, managedFields: isSame ? keepTimes(stored, next) : next }),
  }
}

function generationAfter({ generation = 0 }: BareMeta): number {
  return generation + 1
}

/** Returns the object marked as deleted, with `finalizers`. Checks neither schema nor indexes. */
export function draftDeletionMark(
  served: ServedModel,
  stored: StoredObject,
  finalizers: string[],
  now: number,
): Draft {
  const { object } = stored
  const metadata = orderMetadata({
    ...object.metadata,
    generation: served.hasGeneration ? generationAfter(object.metadata) : undefined,
    deletionTimestamp: new Date(now).toISOString(),
    finalizers: finalizers.length > 0 ? finalizers : undefined,
  })
  const marked = { ...object, metadata }
  served.rules?.deleting?.(marked)
  return unindexedDraft(served, marked, stored)
}

/** Returns a draft that keeps the reservations and what is stored. Checks neither schema nor indexes. */
function unindexedDraft(served: ServedModel, object: BareObject, stored: StoredObject): Draft {
  const { raw } = stored
  // As in Kubernetes, each write of an object of a definition stores it in the version that objects are stored in.
  const isMigrated = served.defined !== undefined && raw?.apiVersion !== object.apiVersion
  return {
    object,
    json: encodeObject(object),
    rawJson: isMigrated ? undefined : raw && encodeObject({ ...raw, metadata: object.metadata }),
    reservations: stored.reservations,
    isIndexed: false,
    warnings: [],
  }
}

/** Completes an object by the model's hook. The schema's defaults may have made it too large for that. */
function withHook(
  served: ServedModel,
  object: BareObject,
  previous: BareObject | undefined,
  scope: Scope,
  causes: Causes,
): BareObject {
  if (served.model.default === undefined) return object
  checkParts(object, previous, causes)
  if (causes.stops) throw invalid(served, object.metadata.name, causes)
  return served.schemas.prune(runDefaultHook(served, object, previous, scope))
}

/** Merges stored and sent content. With the status subresource each of the two paths changes only its own part. */
export function contentOf(
  version: ServedVersion,
  previous: BareObject,
  content: Readonly<Record<string, unknown>>,
  scope: Scope,
): Record<string, unknown> {
  if (!version.hasStatus) return { ...content }
  const { apiVersion, kind, metadata, status: previousStatus, ...previousContent } = previous
  const { status, ...rest } = content
  if (scope === 'status') return status === undefined ? previousContent : { ...previousContent, status }
  return previousStatus === undefined ? rest : { ...rest, status: previousStatus }
}

/** Checks schema and indexes of an object with its defaults. @throws ApiError 422 with all violations */
function finishDraft(
  served: ServedModel,
  completed: BareObject,
  stored: StoredObject | undefined,
  scope: Scope,
  causes: Causes,
  options: Pick<WriteOptions, 'user' | 'version' | 'isDeclared'>,
): Draft {
  const { name } = completed.metadata
  if (!causes.stops) checkParts(completed, stored?.object, causes)
  if (causes.stops) throw invalid(served, name, causes)
  // An object in another version says nothing about violations at the hub.
  const before = stored?.failure === undefined ? stored : undefined
  const { user = serverUser, version = served.hub } = options
  // Kubernetes checks objects of definitions in the version of the request only, as `contentAtHub` has done.
  const isChecked = options.isDeclared || (version.defined !== undefined && !version.isHub)
  const found = isChecked ? [] : violationsLeft(served.schemas, completed, before?.object)
  const violations = served.rules?.reportsDuplicates
    ? found.filter(({ reason }) => reason !== 'FieldValueDuplicate')
    : found
  const isValid = violations.length === 0
  const refused = runValidateHook(served, completed, before?.object, scope, user, isValid)
  checkScaled(version, completed, causes)
  const ofKind = isValid && served.rules?.validate?.(completed, before?.object, version.apiVersion)
  // The fields are those of the hub, which the client may not know.
  const suffix = version.isHub ? '' : ` (after conversion to ${served.hub.name})`
  const addAll = (found: readonly (StatusCause | HookViolation)[]) => {
    for (const { reason = 'FieldValueInvalid', ...cause } of found)
      causes.add({ ...cause, reason, message: cause.message + suffix })
  }
  addAll([...violations, ...refused, ...(ofKind || [])])
  const warnings = served.hub.isBuiltIn
    ? (served.rules?.warningsOf?.(completed, before?.object, scope) ?? [])
    : finalizerWarnings(completed.metadata, stored?.object.metadata)
  // Index functions may rely on the schema, so they only see valid objects.
  if (!isValid) throw invalid(served, name, causes)
  const json = encodeObject(completed)
  const values = indexDraft(served, completed, json, before, causes)
  if (!causes.isEmpty) throw invalid(served, name, causes)
  addAll(runAdmitHook(served, completed, before?.object, scope, user))
  if (!causes.isEmpty) throw invalid(served, name, causes)
  if (options.user !== undefined) served.rules?.admit?.(completed, before?.object, options.user)
  return { object: completed, json, ...values, isIndexed: true, warnings }
}

/** Refuses an object that has too many parts or values, and more than the stored one. */
function checkParts(next: BareObject, stored: BareObject | undefined, causes: Causes): void {
  const check = (limit: number, name: string, count: (object: BareObject) => number, field?: string) => {
    const found = count(next)
    if (found <= limit || (stored !== undefined && found <= count(stored))) return
    const message = `${field === undefined ? 'the object ' : ''}must have at most ${limit} ${name}, has ${found}`
    causes.addTooLarge({ reason: 'FieldValueTooMany', message, ...(field !== undefined && { field }) })
  }
  const { parts, values, managedParts } = objectLimits
  check(parts, partsName, countParts)
  check(values, valuesName, countValues)
  if (next.metadata.managedFields === stored?.metadata.managedFields) return
  const managed = ({ metadata }: BareObject) => countParts(metadata.managedFields)
  check(managedParts, partsName, managed, 'metadata.managedFields')
}
