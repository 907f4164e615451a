import { isRecord, type ManagedFieldsEntry } from '@setpoint/controller-runtime/api'
import {
  type BareObject,
  ConversionError,
  deepEqual,
  objectLimits,
  partsName,
  type Scope,
  type ServedModel,
  type ServedVersion,
} from '../../model/index.ts'
import type { Causes } from '../causes.ts'
import { checkConfig } from './check-config.ts'
import { conflictError } from './conflicts.ts'
import {
  covers,
  difference,
  type FieldSet,
  isEmpty,
  noFields,
  setOfFields,
  sizeOf,
  union,
} from './field-set.ts'
import { objectTypeOf } from './field-type.ts'
import { fieldsLastApplied, kubectlManager, withLastApplied } from './last-applied.ts'
import {
  capUpdates,
  fromStored,
  isSameManager,
  type Manager,
  managedFieldsDefaults,
  type OwnedFields,
  ownedBy,
  type SentManagedFields,
  toStored,
} from './managed-fields.ts'
import { type Conflict, Ownership, type VersionedObject, type Versions } from './ownership.ts'
import { fieldElement, type PathElement } from './path-element.ts'
import { fieldsOf } from './to-field-set.ts'

/** A write, as far as the ownership of fields is concerned. */
export interface ManagedWrite {
  readonly served: ServedModel
  /** The version of the request. */
  readonly version: ServedVersion
  readonly scope: Scope
  /** The name of the writer. */
  readonly manager: string
  readonly now: number
}

type Entries = readonly OwnedFields[]
type StoredEntries = readonly ManagedFieldsEntry[]

/** The owner of the fields that an object had before its first apply. */
const beforeFirstApply = 'before-first-apply'

/**
 * Fields that have no owner: they identify the object, or only the server sets them. From Kubernetes' `stripmeta.go`.
 */
const unowned = setOfFields(
  ['apiVersion'],
  ['kind'],
  ['metadata'],
  ...[
    'name',
    'namespace',
    'creationTimestamp',
    'deletionTimestamp',
    'generation',
    'resourceVersion',
    'uid',
    'version',
  ].map(name => ['metadata', name]),
)

/**
 * Returns the managed fields of an object after a write that is not an apply, or undefined without any. An object is
 * tracked from its first apply on, until a client resets its managed fields.
 * @param before the stored object at the hub
 * @param after the new object at the hub, with its defaults
 * @param sent what the request says about managed fields
 */
export function trackUpdate(
  write: ManagedWrite,
  before: BareObject,
  after: BareObject,
  sent: SentManagedFields,
): StoredEntries | undefined {
  const stored = before.metadata.managedFields
  if (stored === undefined) return undefined
  if (write.scope === 'object' && sent.kind === 'reset') return undefined
  const entries = write.scope === 'object' && sent.kind === 'given' ? sent.entries : fromStored(stored)
  try {
    return ownersAfterUpdate(write, before, after, entries)
  } catch (error) {
    // As in Kubernetes, a conversion that fails does not block the write.
    if (error instanceof ConversionError) return stored
    throw error
  }
}

function ownersAfterUpdate(
  write: ManagedWrite,
  before: BareObject,
  after: BareObject,
  entries: Entries,
): ManagedFieldsEntry[] | undefined {
  const { served, version, scope } = write
  const ownership = new Ownership(versionsOf(served, before), writableIn(write, scope))
  const change = ownership.update(versioned(before), versioned(after), entries, version.apiVersion)
  return toStored(withUpdate(write, change.entries, change.taken))
}

/** Adds the fields that a writer has taken to its entry. */
function withUpdate(write: ManagedWrite, entries: Entries, taken: FieldSet): Entries {
  const fields = difference(taken, unowned)
  if (isEmpty(fields)) return entries
  const who = managerOf(write, 'Update')
  const previous = entries.find(entry => isSameManager(entry, who))
  const own = ownedBy(who, previous === undefined ? fields : union(previous.fields, fields))
  const others = entries.filter(entry => entry !== previous)
  return capUpdates([...others, { ...own, time: timeOf(write) }])
}

/** An object after an apply, in the version of the request, with the new managed fields. */
interface AppliedObject {
  readonly object: unknown
  readonly managedFields: StoredEntries | undefined
}

/**
 * Merges an applied configuration into an object.
 * @param live the object in the version of the request; undefined if it does not exist
 * @param causes takes the problems of a configuration that cannot be merged: the result is undefined then
 * @throws ApiError 409 with the conflicting fields, unless `force`; ConversionError
 */
export function applyConfiguration(
  write: ManagedWrite & { readonly name: string; readonly force: boolean },
  live: { readonly view: BareObject; readonly hub: BareObject } | undefined,
  body: Readonly<Record<string, unknown>>,
  causes: Causes,
): AppliedObject | undefined {
  const { served, version, scope, name, manager } = write
  const { apiVersion } = version
  const type = objectTypeOf(version)
  const value = configurationOf(body, name)
  checkConfig(type, value, causes)
  if (!causes.isEmpty) return undefined
  const config = { apiVersion, value, fields: fieldsOf(type, value) }
  checkSize(config.fields, causes)
  if (!causes.isEmpty) return undefined
  const ownership = new Ownership(versionsOf(served, live?.hub), writableIn(write, scope))
  const empty = { apiVersion, value: { apiVersion, kind: version.kind } }
  const before = live === undefined ? empty : versioned(live.view)
  const { managedFields } = live?.hub.metadata ?? {}
  const stored = managedFields && fromStored(managedFields)
  const entries =
    stored ??
    withUpdate(
      { ...write, manager: beforeFirstApply },
      [],
      ownership.update(empty, before, [], apiVersion).taken,
    )
  const who = managerOf(write, 'Apply')
  const attempt = (force: boolean) => ownership.apply(before, config, entries, who, force)
  let result = attempt(write.force)
  if ('conflicts' in result) {
    const allowed = manager === kubectlManager ? fieldsLastApplied(type, apiVersion, before.value) : noFields
    const left = conflictsOutside(result.conflicts, allowed)
    if (left.length > 0) throw conflictError(left, served.model.sensitive)
    result = attempt(true)
    if ('conflicts' in result) throw conflictError(result.conflicts, served.model.sensitive)
  }
  const object = manager === kubectlManager ? withLastApplied(result.object.value, body) : result.object.value
  const next = withOwnTime(result.entries, who, write, stored)
  checkAppliers(next, stored, causes)
  return causes.isEmpty ? { object, managedFields: toStored(next) } : undefined
}

/**
 * Returns the entries with the time of the applier's own, and without the fields that have no owner. An applier that
 * owns the same fields as before keeps the stored set, which is in order.
 */
function withOwnTime(entries: Entries, who: Manager, write: ManagedWrite, before: Entries = []): Entries {
  return entries.map(entry => {
    if (!isSameManager(entry, who)) return entry
    const fields = difference(entry.fields, unowned)
    const last = before.find(each => isSameManager(each, who))?.fields
    const isSame = last !== undefined && covers(last, fields) && covers(fields, last)
    return { ...entry, fields: isSame ? last : fields, time: timeOf(write) }
  })
}

function conflictsOutside(conflicts: readonly Conflict[], allowed: FieldSet): Conflict[] {
  return conflicts.flatMap(({ entry, fields }) => {
    const left = difference(fields, allowed)
    return isEmpty(left) ? [] : [{ entry, fields: left }]
  })
}

/**
 * Returns the configuration without the fields that only the server sets: a client may send back what it has read. The
 * name is always there, so that removals keep the metadata.
 */
function configurationOf(body: Readonly<Record<string, unknown>>, name: string): Record<string, unknown> {
  const sent = isRecord(body.metadata) ? body.metadata : {}
  const metadata: Record<string, unknown> = { name }
  for (const field of ['labels', 'annotations', 'finalizers', 'ownerReferences'])
    if (sent[field] !== undefined) metadata[field] = sent[field]
  return { ...body, metadata }
}

/** Refuses a configuration whose fields alone are past the bound of managed fields, before they are merged. */
function checkSize(fields: FieldSet, causes: Causes): void {
  const { managedParts } = objectLimits
  const count = sizeOf(fields)
  if (count <= managedParts) return
  causes.addTooLarge({
    reason: 'FieldValueTooMany',
    field: 'metadata.managedFields',
    message: `must have at most ${managedParts} ${partsName}, the configuration has ${count} to be managed`,
  })
}

function checkAppliers(next: Entries, stored: Entries | undefined, causes: Causes): void {
  const count = (entries: Entries | undefined) =>
    entries?.filter(({ operation }) => operation === 'Apply').length ?? 0
  const { applyManagers } = managedFieldsDefaults
  const appliers = count(next)
  if (appliers <= applyManagers || appliers <= count(stored)) return
  causes.addTooLarge({
    reason: 'FieldValueTooMany',
    field: 'metadata.managedFields',
    message: `must have at most ${applyManagers} managers that apply, has ${appliers}`,
  })
}

/**
 * Returns the stored entries if the next ones differ from them in times only. A write that changes nothing else then
 * changes nothing at all. From Kubernetes' `endpoints/handlers/fieldmanager/equality.go`.
 */
export function keepTimes(
  stored: StoredEntries | undefined,
  next: StoredEntries | undefined,
): StoredEntries | undefined {
  if (stored === undefined || next === undefined || stored.length !== next.length) return next
  const isKnown = (entry: ManagedFieldsEntry) => {
    const other = stored.find(each => isSameManager(each, entry))
    return other !== undefined && deepEqual({ ...other, time: undefined }, { ...entry, time: undefined })
  }
  return next.every(isKnown) ? stored : next
}

function managerOf({ manager, version, scope }: ManagedWrite, operation: 'Apply' | 'Update'): Manager {
  const { apiVersion } = version
  return { manager, operation, apiVersion, ...(scope === 'status' && { subresource: 'status' }) }
}

/** RFC 3339 in seconds, as Kubernetes' times. */
function timeOf({ now }: ManagedWrite): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`
}

/** With the status subresource, each of the two paths owns only what it may change. */
function writableIn(
  { served, version }: Pick<ManagedWrite, 'served' | 'version'>,
  scope: Scope,
): (set: FieldSet) => FieldSet {
  if (!version.hasStatus) return set => set
  const isWritable = (element: PathElement) =>
    scope === 'object'
      ? element !== statusElement
      : element === statusElement || (element === metadataElement && served.takesMetadata(scope))
  return set => new Map([...set].filter(([element]) => isWritable(element)))
}

const metadataElement = fieldElement('metadata')
const statusElement = fieldElement('status')

function versioned(object: BareObject): VersionedObject {
  const { managedFields: _managedFields, ...metadata } = object.metadata
  return { apiVersion: object.apiVersion, value: { ...object, metadata } }
}

/**
 * @param live the stored object at the hub, or a function that makes it when it is needed. Conversions keep the fields
 * that
 *   only the hub has.
 */
function versionsOf(served: ServedModel, live: BareObject | undefined | (() => BareObject)): Versions {
  const find = (apiVersion: string) => served.versions.find(version => version.apiVersion === apiVersion)
  const versions: Versions = {
    typeOf(apiVersion) {
      const version = find(apiVersion)
      return version && objectTypeOf(version)
    },
    convert(object, apiVersion) {
      if (object.apiVersion === apiVersion) return object
      const from = find(object.apiVersion)
      const to = find(apiVersion)
      if (from === undefined || to === undefined)
        throw new RangeError(`${served.resource} has no version ${object.apiVersion} or ${apiVersion}`)
      const copy: BareObject = JSON.parse(JSON.stringify(object.value))
      if (from.content.spec !== undefined) copy.spec ??= {}
      const previous = typeof live === 'function' ? live() : live
      return { apiVersion, value: to.fromHub(from.toHub(copy, previous)) }
    },
    keepingFieldsOf(object) {
      let hub: BareObject | undefined
      const hubOf = (): BareObject =>
        JSON.parse(JSON.stringify(versions.convert(object, served.hub.apiVersion).value))
      return versionsOf(served, () => (hub ??= hubOf()))
    },
  }
  return versions
}
