import { randomUUID } from 'node:crypto'
import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import {
  type BareMeta,
  type BareObject,
  countReservations,
  deepEqual,
  encodeObject,
  filterReservations,
  formatPath,
  noReservations,
  objectLimits,
  type Reservations,
  remainingViolations,
  reservationsOf,
  reservationsWithout,
  type SchemaSubject,
  type StoredObject,
  shorten,
} from '../model/index.ts'
import { Causes, echo } from './causes.ts'
import { type ClientMeta, checkMetadata, checkObjectName, keepNotes, readMetadata } from './metadata.ts'
import { badRequest, invalid } from './refusals.ts'
import { uniqueLimits } from './unique-index.ts'
import type { WriteOptions } from './write-options.ts'

/** An object that has passed every check and is ready to be stored. */
export interface Draft {
  readonly object: BareObject
  /** The object's JSON. The stored bytes and the response contain it. */
  readonly json: string
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
}

/**
 * Splits a decoded body into its parts.
 * @throws ApiError 400 if it is not an object of the path's kind
 */
export function readClientObject(served: ServedModel, body: unknown): ClientObject {
  if (!isRecord(body)) throw badRequest('the body must be one object with apiVersion, kind and metadata')
  const { apiVersion, kind, metadata, ...content } = body
  const { model } = served
  if (apiVersion !== model.apiVersion || kind !== model.kind) {
    throw badRequest(describeMismatch(served, apiVersion, kind))
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata))
    throw badRequest('metadata must be an object')
  const causes = new Causes()
  const meta = readMetadata(metadata ?? {}, causes)
  return { meta, content, causes }
}

function describeMismatch({ model }: ServedModel, apiVersion: unknown, kind: unknown): string {
  const takes = `this path takes kind ${show(model.kind)} of apiVersion ${show(model.apiVersion)}`
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
  environment: { now: number; reservedDomain: string },
): Draft {
  const { meta, content } = client
  const causes = new Causes(client.causes)
  const nameCause = checkObjectName(name)
  if (nameCause !== undefined) causes.add(nameCause)
  const metadata = orderMetadata({
    name,
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
  })
  const { reservedDomain } = environment
  checkMetadata(metadata, undefined, { plugin: options.plugin, reservedDomain }, causes)
  const { status, ...withoutStatus } = content
  const object = composeObject(served, metadata, served.model.subresources.status ? withoutStatus : content)
  return finishDraft(served, withDefaults(served, object), undefined, causes, options)
}

/** The part of an object that a write may change. */
export type Scope = 'object' | 'status'

/**
 * Returns the object that an update would store, or undefined if nothing changes.
 */
export function draftUpdate(
  served: ServedModel,
  stored: StoredObject,
  client: ClientObject,
  scope: Scope,
  options: WriteOptions,
  reservedDomain: string,
): Draft | undefined {
  const { object: previous } = stored
  const { meta, content } = client
  const owned = previous.metadata
  const causes = new Causes(client.causes)
  const metadata =
    scope === 'status'
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
  const object = composeObject(served, metadata, contentOf(served, previous, content, scope))
  if (onlyTakesAwayFinalizers(object, previous)) {
    // No schema or index may block this, or objects could become undeletable.
    if (!causes.isEmpty) throw invalid(served, owned.name, causes)
    if (object.metadata.finalizers?.length === owned.finalizers?.length) return undefined
    return unindexedDraft(object, stored)
  }
  if (options.onlyLettingGo !== undefined) throw options.onlyLettingGo
  const completed = withDefaults(served, object)
  const isChanged = !deepEqual(completed, previous)
  if (scope === 'object' && isChanged && desiredStateDiffers(served, completed, previous))
    metadata.generation = owned.generation + 1
  const draft = finishDraft(served, completed, stored, causes, options)
  return isChanged ? draft : undefined
}

/** Returns the object marked as deleted, with `finalizers`. Checks neither schema nor indexes. */
export function draftDeletionMark(stored: StoredObject, finalizers: string[], now: number): Draft {
  const { object } = stored
  const metadata = orderMetadata({
    ...object.metadata,
    generation: object.metadata.generation + 1,
    deletionTimestamp: new Date(now).toISOString(),
    finalizers,
  })
  return unindexedDraft({ ...object, metadata }, stored)
}

/** Returns a draft that keeps the stored reservations. Checks neither schema nor indexes. */
function unindexedDraft(object: BareObject, stored: StoredObject): Draft {
  return {
    object,
    json: encodeObject(object),
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
  causes: Causes,
  options: WriteOptions,
): Draft {
  const { name } = completed.metadata
  if (causes.stops) throw invalid(served, name, causes)
  let violations = served.schemas.validate(completed)
  if (violations.length > 0 && stored !== undefined) {
    // A newer default must not make an unchanged field look changed.
    const before = withDefaults(served, stored.object)
    violations = remainingViolations(violations, served.schemas.validate(before), completed, before)
  }
  for (const { field, reason, message } of violations) causes.add({ field, reason, message })
  const warnings = checkUnknownFields(served, completed, options)
  // Index functions may rely on the schema, so they only see valid objects.
  const json = encodeObject(completed)
  const values = violations.length === 0 ? indexDraft(served, json, stored, causes) : undefined
  if (!causes.isEmpty || values === undefined) throw invalid(served, name, causes)
  return { object: completed, json, ...values, isIndexed: true, warnings }
}

function withDefaults(served: ServedModel, object: BareObject): BareObject {
  if (!served.schemas.hasDefaults) return object
  const completed: BareObject = { ...object, spec: structuredClone(object.spec) }
  if (object.status !== undefined) completed.status = structuredClone(object.status)
  served.schemas.applyDefaults(completed)
  return completed
}

/** Returns a warning for each unknown field. @throws ApiError 400 with the fields, under `Strict` */
function checkUnknownFields(served: ServedModel, object: BareObject, options: WriteOptions): string[] {
  if (options.fieldValidation === 'Ignore') return []
  const fields = unknownFieldsOf(served, object)
  if (fields.length === 0) return []
  if (options.fieldValidation === 'Strict') {
    throw new ApiError(
      'BadRequest',
      `strict decoding error: ${fields.map(field => `unknown field "${field}"`).join(', ')}`,
      {
        causes: fields.map(field => ({
          reason: 'FieldValueInvalid',
          message: `unknown field "${field}"`,
          field,
        })),
      },
    )
  }
  return fields.map(field => `unknown field "${field}"`)
}

const knownFields = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status'])

/** Returns the paths of the unknown fields outside metadata, at most `objectLimits.violations`. */
export function unknownFieldsOf(served: ServedModel, object: SchemaSubject): string[] {
  const fields = served.schemas.unknownFields(object)
  for (const field of Object.keys(object)) {
    if (fields.length >= objectLimits.violations) break
    if (!knownFields.has(field)) fields.push(formatPath([field]))
  }
  return fields
}

/**
 * Returns the unique values that an object must hold and those that it may claim. Adds a cause for every index that
 * fails on the object, unless it failed on the stored one too.
 */
function indexDraft(
  served: ServedModel,
  json: string,
  stored: StoredObject | undefined,
  causes: Causes,
): { reservations: Reservations; claims: Reservations } {
  // An index function may change its argument, for example sort a list in place, so it gets a copy.
  const { values, problems } = served.indexes.tryValuesOf(decodeObject(json), passing)
  const wanted = reservationsOf(served, values)
  const overfull = overfullIndexes(served, values)
  // The index values of the stored object are computed only if the decision needs them.
  const unusual =
    stored !== undefined &&
    (problems.length > 0 ||
      overfull.length > 0 ||
      reservationsWithout(wanted, stored.reservations).length > 0)
  const before = unusual
    ? served.indexes.tryValuesOf(decodeObject(encodeObject(stored.object)), passing)
    : undefined
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

/** The cache must not keep the values of a draft. */
const passing = { isKept: false }

function decodeObject(json: string): BareObject {
  return JSON.parse(json)
}

/** Returns true if anything outside metadata differs, and outside status with the status subresource. */
function desiredStateDiffers(served: ServedModel, next: BareObject, previous: BareObject): boolean {
  const { metadata: nextMeta, status: nextStatus, ...nextRest } = next
  const { metadata: previousMeta, status: previousStatus, ...previousRest } = previous
  if (!deepEqual(nextRest, previousRest)) return true
  return !served.model.subresources.status && !deepEqual(nextStatus, previousStatus)
}

function onlyTakesAwayFinalizers(next: BareObject, previous: BareObject): boolean {
  const kept = next.metadata.finalizers ?? []
  const before = new Set(previous.metadata.finalizers)
  if (kept.some(finalizer => !before.has(finalizer))) return false
  const bare = (object: BareObject) => ({
    ...object,
    metadata: { ...object.metadata, finalizers: undefined },
  })
  return deepEqual(bare(next), bare(previous))
}

/** Builds an object with its fields in a fixed order. `wireBytes` relies on the first three. */
function composeObject(
  served: ServedModel,
  metadata: BareMeta,
  content: Record<string, unknown>,
): BareObject {
  const { spec = {}, status, apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...unknown } = content
  const { model } = served
  const object: BareObject = { apiVersion: model.apiVersion, kind: model.kind, metadata, spec }
  if (status !== undefined) object.status = status
  return Object.assign(object, unknown)
}

const metadataOrder = [
  'name',
  'generateName',
  'uid',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'finalizers',
  'ownerReferences',
  'labels',
  'annotations',
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
