import { randomUUID } from 'node:crypto'
import {
  type ApiError,
  isRecord,
  type StatusCause,
  type ViolationReason,
} from '@setpoint/controller-runtime/api'
import type { SchemaValidator, ServedModel, ServedVersion } from '../model/index.ts'
import {
  type BareMeta,
  type BareObject,
  countReservations,
  deepEqual,
  encodeObject,
  filterReservations,
  noReservations,
  objectLimits,
  type Reservations,
  remainingViolations,
  reservationsOf,
  reservationsWithout,
  runDefaultHook,
  runValidateHook,
  type Scope,
  type StoredObject,
  shorten,
  type Violation,
} from '../model/index.ts'
import { keepTimes } from './apply/index.ts'
import { Causes, echo } from './causes.ts'
import {
  type ClientMeta,
  checkMetadata,
  checkObjectName,
  finalizerWarnings,
  keepNotes,
  type MetadataNotes,
  readMetadata,
} from './metadata.ts'
import { badRequest, invalid } from './refusals.ts'
import { uniqueLimits } from './unique-index.ts'
import { checkUnknownFields, unknownFieldsOf, warningsOfUnknown } from './unknown-fields.ts'
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

/** The parts of a request's body. */
export interface ClientObject {
  readonly meta: ClientMeta
  readonly content: Readonly<Record<string, unknown>>
  /** Violations found in the metadata, reported together with all others. */
  readonly causes: Causes
  /** Texts of `Warning` headers about the metadata. */
  readonly warnings: readonly string[]
}

/**
 * Splits a decoded body into its parts. Bodies of built-in kinds may omit apiVersion and kind, and null is
 * the same as an absent field, as in Kubernetes. Unknown fields are removed if the model prunes them.
 * @throws ApiError 400 if it is not an object of the path's kind and version, or under `Strict` has unknown metadata or
 * fields that are pruned
 */
export function readClientObject(
  version: ServedVersion,
  body: unknown,
  { dropsNulls, fieldValidation = 'Ignore' }: Partial<WriteOptions> = {},
): ClientObject {
  if (!isRecord(body)) throw badRequest('the body must be one object with apiVersion, kind and metadata')
  const absent = version.isBuiltIn ? version : { apiVersion: undefined, kind: undefined }
  const { apiVersion = absent.apiVersion, kind = absent.kind, metadata, ...content } = body
  if (apiVersion !== version.apiVersion || kind !== version.kind) {
    throw badRequest(describeMismatch(version, apiVersion, kind))
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata))
    throw badRequest('metadata must be an object')
  const causes = new Causes()
  const notes: MetadataNotes = { unknownFields: [], warnings: [] }
  const meta = readMetadata(metadata ?? {}, causes, notes)
  const warnings = [...warningsOfUnknown(notes.unknownFields, fieldValidation), ...notes.warnings]
  if (version.isBuiltIn) return { meta, content: withoutAllNulls(content), causes, warnings }
  const { schemas } = version
  if (schemas.prunes) warnings.push(...warningsOfUnknown(unknownFieldsOf(schemas, content), fieldValidation))
  const kept = schemas.prune(content)
  return { meta, content: dropsNulls ? version.withoutNulls(kept) : kept, causes, warnings }
}

/** Kubernetes' clients in Go send null for fields that are not set. Copies what it changes. */
function withoutAllNulls(content: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(content)
      .filter(([, value]) => value !== null)
      .map(([field, value]) => [field, isRecord(value) ? withoutAllNulls(value) : value]),
  )
}

function describeMismatch(version: ServedVersion, apiVersion: unknown, kind: unknown): string {
  const takes = `this path takes kind ${show(version.kind)} of apiVersion ${show(version.apiVersion)}`
  if (kind === undefined || apiVersion === undefined) {
    const missing = [apiVersion === undefined && 'apiVersion', kind === undefined && 'kind']
      .filter(Boolean)
      .join(' and ')
    return `the body has no ${missing}: ${takes}`
  }
  return `the body is of kind ${show(kind)} and apiVersion ${show(apiVersion)}, but ${takes}`
}

export function draftCreation(
  served: ServedModel,
  name: string,
  client: ClientObject,
  options: WriteOptions,
  environment: { now: number; reservedDomain: string; managedFields?: BareMeta['managedFields'] },
): Draft {
  const { meta, content } = client
  const causes = new Causes(client.causes)
  const nameCause = checkObjectName(name, served.model.names)
  if (nameCause !== undefined) causes.add(nameCause)
  const metadata = orderMetadata({
    name,
    namespace: served.indexes.isNamespaced ? options.namespace : undefined,
    generateName: meta.generateName,
    uid: randomUUID(),
    generation: 1,
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
  const { status, ...withoutStatus } = content
  const created = served.model.subresources.status ? withoutStatus : content
  const converted = contentAtHub(served, metadata, created, undefined, causes, options)
  const object = composeObject(served.hub, metadata, converted.content ?? {})
  served.rules?.created?.(object)
  const defaulted = served.schemas.prune(withDefaults(served.schemas, object))
  const completed = served.schemas.prune(runDefaultHook(served, defaulted, undefined, 'object'))
  return finishDraft(served, completed, undefined, 'object', causes, { ...options, ...converted })
}

/** The stored object as a request sees it, in the version of its path. */
export interface StoredView {
  readonly view: BareObject
  /** Set if the object cannot be converted to that version. `view` then has the content of the hub. */
  readonly failure?: ApiError
}

/** Content at the hub, and how the rest of the write treats unknown fields. */
interface ContentAtHub {
  /** Undefined if it is what is stored. */
  readonly content: Record<string, unknown> | undefined
  readonly fieldValidation: WriteOptions['fieldValidation']
  /** Warnings about the content in the version of the request. */
  readonly warnings: readonly string[]
}

/**
 * Converts content of the request's version to the hub, after its version's defaults and checks. Content that equals the
 * stored one in that version is not converted, so that a change of the metadata loses nothing.
 * @throws ApiError 422 with the violations of the version's schema; ConversionError
 */
function contentAtHub(
  served: ServedModel,
  metadata: BareMeta,
  content: Record<string, unknown>,
  stored: (StoredView & { readonly hub: BareObject | undefined }) | undefined,
  causes: Causes,
  options: WriteOptions,
): ContentAtHub {
  const { version = served.hub, fieldValidation } = options
  if (version.isHub && stored?.failure === undefined) return { content, fieldValidation, warnings: [] }
  const object = composeObject(version, metadata, content)
  if (
    stored !== undefined &&
    deepEqual({ ...object, metadata: undefined }, { ...stored.view, metadata: undefined })
  )
    return { content: undefined, fieldValidation: 'Ignore', warnings: [] }
  if (stored?.failure !== undefined) throw stored.failure
  if (causes.stops) throw invalid(served, metadata.name, causes)
  const completed = withDefaults(version.schemas, object)
  for (const violation of violationsLeft(version.schemas, completed, stored?.view)) causes.add(violation)
  const warnings = checkUnknownFields(version.schemas, completed, options)
  if (!causes.isEmpty) throw invalid(served, metadata.name, causes)
  return { content: version.toHub(completed, stored?.hub), fieldValidation: 'Ignore', warnings }
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
  const owned = previous.metadata
  const causes = new Causes(client.causes)
  const metadata =
    scope !== 'object'
      ? owned
      : orderMetadata({
          ...owned,
          finalizers: meta.finalizers,
          ownerReferences: meta.ownerReferences,
          labels: meta.labels,
          annotations: options.isService
            ? meta.annotations
            : keepNotes(meta.annotations, owned.annotations, reservedDomain),
        })
  checkMetadata(metadata, owned, { plugin: options.plugin, reservedDomain }, causes)
  // Further checks walk over what is too large.
  if (causes.stops) throw invalid(served, owned.name, causes)
  const sent = contentOf(served, seen.view, content, scope)
  const hub = stored.failure === undefined ? previous : undefined
  const converted = contentAtHub(served, metadata, sent, { ...seen, hub }, causes, options)
  const next = hub && converted.content && contentOf(served, hub, converted.content, scope)
  const object =
    converted.content === undefined
      ? { ...previous, metadata }
      : composeObject(served.hub, metadata, next ?? converted.content)
  served.rules?.updated?.(object, previous, scope)
  const difference = differenceOf(object, previous)
  if (onlyTakesAwayFinalizers(object, previous, difference)) {
    // No schema or index may block this, or objects could become undeletable.
    if (!causes.isEmpty) throw invalid(served, owned.name, causes)
    const next = owners === undefined ? object : withOwners(object, previous, owners(object))
    const { finalizers, managedFields } = next.metadata
    if (finalizers?.length === owned.finalizers?.length && managedFields === owned.managedFields)
      return undefined
    return unindexedDraft(next, stored)
  }
  if (seen.failure !== undefined) throw seen.failure
  if (stored.failure !== undefined && converted.content === undefined) throw stored.failure
  if (options.onlyLettingGo !== undefined) throw options.onlyLettingGo
  const defaulted = served.schemas.prune(withDefaults(served.schemas, object))
  const hooked = served.schemas.prune(runDefaultHook(served, defaulted, hub, scope))
  const completed = owners === undefined ? hooked : withOwners(hooked, previous, owners(defaulted))
  const differs = completed === object ? difference : differenceOf(completed, previous)
  const isDesired = differs.content || (differs.status && !served.model.subresources.status)
  if (scope === 'object' && isDesired) completed.metadata.generation = owned.generation + 1
  const isChanged = isDesired || differs.status || differs.metadata || differs.finalizers
  const draft = finishDraft(served, completed, stored, scope, causes, { ...options, ...converted })
  return isChanged ? draft : undefined
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
    generation: object.metadata.generation + 1,
    deletionTimestamp: new Date(now).toISOString(),
    finalizers: finalizers.length > 0 ? finalizers : undefined,
  })
  const marked = { ...object, metadata }
  served.rules?.deleting?.(marked)
  return unindexedDraft(marked, stored)
}

/** Returns a draft that keeps the stored version and reservations. Checks neither schema nor indexes. */
function unindexedDraft(object: BareObject, stored: StoredObject): Draft {
  const { raw } = stored
  return {
    object,
    json: encodeObject(object),
    rawJson: raw && encodeObject({ ...raw, metadata: object.metadata }),
    reservations: stored.reservations,
    isIndexed: false,
    warnings: [],
  }
}

/** Merges stored and sent content. With the status subresource each of the two paths changes only its own part. */
function contentOf(
  served: ServedModel,
  previous: BareObject,
  content: Readonly<Record<string, unknown>>,
  scope: Scope,
): Record<string, unknown> {
  if (!served.model.subresources.status) return { ...content }
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
  options: Omit<ContentAtHub, 'content'> & Pick<WriteOptions, 'user' | 'version' | 'isDeclared'>,
): Draft {
  const { name } = completed.metadata
  if (causes.stops) throw invalid(served, name, causes)
  // An object in another version says nothing about violations at the hub.
  const before = stored?.failure === undefined ? stored : undefined
  const violations = options.isDeclared ? [] : violationsLeft(served.schemas, completed, before?.object)
  const { user = serverUser, version = served.hub } = options
  const isValid = violations.length === 0
  const refused = runValidateHook(served, completed, before?.object, scope, user, isValid)
  const ofKind = isValid && served.rules?.validate?.(completed, before?.object, version.apiVersion)
  // The fields are those of the hub, which the client may not know.
  const suffix = version.isHub ? '' : ` (after conversion to ${served.hub.name})`
  for (const { reason = 'FieldValueInvalid', ...cause } of [...violations, ...refused, ...(ofKind || [])])
    causes.add({ ...cause, reason, message: cause.message + suffix })
  const warnings = [...options.warnings, ...checkUnknownFields(served.schemas, completed, options)]
  if (!served.hub.isBuiltIn) warnings.push(...finalizerWarnings(completed.metadata, stored?.object.metadata))
  // Index functions may rely on the schema, so they only see valid objects.
  if (!isValid) throw invalid(served, name, causes)
  const json = encodeObject(completed)
  const values = indexDraft(served, completed, json, before, causes)
  if (!causes.isEmpty) throw invalid(served, name, causes)
  if (options.user !== undefined) served.rules?.admit?.(completed, before?.object, options.user)
  return { object: completed, json, ...values, isIndexed: true, warnings }
}

/** Returns the violations of the schema and its rules, without those that the stored object has in the same place. */
export function violationsLeft(
  schemas: SchemaValidator,
  object: BareObject,
  stored: BareObject | undefined,
): StatusCause[] {
  return findViolations(schemas, object, stored).map(({ field, reason, message }) => ({
    field,
    reason,
    message,
  }))
}

function findViolations(
  schemas: SchemaValidator,
  object: BareObject,
  stored: BareObject | undefined,
): Violation[] {
  let violations = schemas.validate(object)
  if (violations.length === 0 && schemas.rules === undefined) return violations
  // A newer default must not make an unchanged field look changed.
  const before = stored && withDefaults(schemas, stored)
  if (violations.length > 0 && before !== undefined)
    violations = remainingViolations(violations, schemas.validate(before), object, before)
  if (schemas.rules === undefined) return violations
  if (violations.some(({ reason }) => blocksRules.has(reason))) return [...violations, rulesNotChecked]
  const { state, transitions } = schemas.rules.validate(object, before)
  if (state.length === 0 || before === undefined) return [...violations, ...state, ...transitions]
  const known = schemas.rules.validate(before, before).state
  return [...violations, ...remainingViolations(state, known, object, before), ...transitions]
}

/** Violations that keep rules from being evaluated, as in Kubernetes: values of wrong types, and values too large. */
const blocksRules: ReadonlySet<ViolationReason> = new Set([
  'FieldValueRequired',
  'FieldValueTypeInvalid',
  'FieldValueTooLong',
  'FieldValueTooMany',
])

const rulesNotChecked: Violation = Object.freeze({
  field: '',
  path: [],
  reason: 'FieldValueInvalid',
  message:
    'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
})

export function withDefaults(schemas: SchemaValidator, object: BareObject): BareObject {
  if (!schemas.hasDefaults) return object
  const completed: BareObject = { ...object }
  for (const field of schemas.fields)
    if (object[field] !== undefined) completed[field] = structuredClone(object[field])
  schemas.applyDefaults(completed)
  return completed
}

/**
 * Returns the unique values that an object must hold and those that it may claim. Adds a cause for every index that
 * fails on the object, unless it failed on the stored one too.
 */
function indexDraft(
  served: ServedModel,
  object: BareObject,
  json: string,
  stored: StoredObject | undefined,
  causes: Causes,
): { reservations: Reservations; claims: Reservations } {
  const { values, problems } = indexValuesOf(served, object, () => json)
  const wanted = reservationsOf(served, values)
  const overfull = overfullIndexes(served, values)
  // The index values of the stored object are computed only if the decision needs them.
  const unusual =
    stored !== undefined &&
    (problems.length > 0 ||
      overfull.length > 0 ||
      reservationsWithout(wanted, stored.reservations).length > 0)
  const before = unusual ? indexValuesOf(served, stored.object, () => encodeObject(stored.object)) : undefined
  for (const { index, message } of problems) {
    if (before?.problems.some(problem => problem.index === index)) continue
    causes.add({
      reason: 'FieldValueInvalid',
      field: index,
      message: `the index ${index} cannot handle this object: ${shorten(message, messageLength)}`,
    })
  }
  for (const { index, position, count } of overfull) {
    if (count <= (before?.values[position]?.length ?? 0)) continue
    causes.add({
      reason: 'FieldValueTooMany',
      field: index,
      message: `must have at most ${objectLimits.indexValues} values in this index, has ${count}`,
    })
  }
  const unheld =
    before && stored ? reservationsWithout(reservationsOf(served, before.values), stored.reservations) : []
  const unheldKeys = new Set(unheld.map(({ index, value }) => `${index}\0${value}`))
  const isUnheld = (index: string, value: string) => unheldKeys.has(`${index}\0${value}`)
  const reservations =
    unheld.length === 0 ? wanted : filterReservations(wanted, (index, value) => !isUnheld(index, value))
  const count = countReservations(reservations)
  if (count > uniqueLimits.valuesPerObject) {
    causes.add({
      reason: 'FieldValueTooMany',
      message: `the object has ${count} values in unique indexes, at most ${uniqueLimits.valuesPerObject} are allowed`,
    })
  }
  let room = uniqueLimits.valuesPerObject - count
  const claims =
    unheld.length === 0
      ? noReservations
      : filterReservations(wanted, (index, value) => isUnheld(index, value) && room-- > 0)
  return { reservations, claims }
}

/** Returns the multi-value indexes that an object overfills. Labels have a bound of their own. */
function overfullIndexes(served: ServedModel, values: readonly (readonly string[])[]) {
  return values.flatMap(({ length: count }, position) => {
    const index = served.indexes.names[position]
    if (count <= objectLimits.indexValues || index === undefined || index === 'metadata.labels') return []
    return [{ index, position, count }]
  })
}

/** Characters of an index function's error in a message. */
const messageLength = 300

/** A declared index function may change its argument, for example sort a list in place, so it gets a copy. */
function indexValuesOf({ indexes }: ServedModel, object: BareObject, json: () => string) {
  const indexed: BareObject = indexes.areDeclared ? JSON.parse(json()) : object
  // The cache must not keep the values of a draft.
  return indexes.tryValuesOf(indexed, { isKept: false })
}

/** The differences between an object and the stored one, by part. */
interface Difference {
  readonly finalizers: boolean
  /** The rest of the metadata. */
  readonly metadata: boolean
  readonly status: boolean
  /** All other fields. */
  readonly content: boolean
}

/** Compares each part once, because comparing is costly for large objects. */
function differenceOf(next: BareObject, previous: BareObject): Difference {
  const bodyOf = (object: BareObject) => ({ ...object, metadata: undefined, status: undefined })
  const restOf = ({ metadata }: BareObject) => ({ ...metadata, finalizers: undefined })
  return {
    finalizers: !deepEqual(next.metadata.finalizers, previous.metadata.finalizers),
    metadata: !deepEqual(restOf(next), restOf(previous)),
    status: !deepEqual(next.status, previous.status),
    content: !deepEqual(bodyOf(next), bodyOf(previous)),
  }
}

function onlyTakesAwayFinalizers(
  next: BareObject,
  previous: BareObject,
  { metadata, status, content }: Difference,
): boolean {
  if (metadata || status || content) return false
  const before = new Set(previous.metadata.finalizers)
  return (next.metadata.finalizers ?? []).every(finalizer => before.has(finalizer))
}

/** Builds an object with its fields in a fixed order. `wireBytes` relies on the first three. */
function composeObject(
  version: ServedVersion,
  metadata: BareMeta,
  content: Record<string, unknown>,
): BareObject {
  const hasSpec = version.content.spec !== undefined
  const { spec = hasSpec ? {} : undefined, status, ...rest } = content
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...others } = rest
  const object: BareObject = { apiVersion: version.apiVersion, kind: version.kind, metadata, spec }
  if (spec === undefined) delete object.spec
  if (status !== undefined) object.status = status
  return Object.assign(object, others)
}

const metadataOrder = [
  'name',
  'namespace',
  'generateName',
  'uid',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'finalizers',
  'ownerReferences',
  'labels',
  'annotations',
  'managedFields',
] as const

/** Copies metadata in a fixed order, the name first, without absent fields. */
function orderMetadata(metadata: { [K in keyof BareMeta]: BareMeta[K] | undefined }): BareMeta {
  const ordered: Record<string, unknown> = {}
  for (const field of metadataOrder) {
    const value = metadata[field]
    if (value !== undefined) ordered[field] = value
  }
  return ordered as unknown as BareMeta
}

function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(echo(value))
  return typeof value === 'object' && value !== null ? 'not a string' : String(value)
}
