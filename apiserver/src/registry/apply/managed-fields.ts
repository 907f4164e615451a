import { isRecord, type ManagedFieldsEntry } from '@setpoint/controller-runtime/api'
import { compareCodePoints, deepEqual } from '../../model/index.ts'
import { decodeFields, encodeFields, type FieldSet, isEmpty, readFieldSet, union } from './field-set.ts'
import { PathElementError } from './path-element.ts'

/** Who writes: the parts of an entry that tell one manager from another. */
export type Manager = Pick<ManagedFieldsEntry, 'manager' | 'operation' | 'apiVersion' | 'subresource'>

export const managedFieldsDefaults = Object.freeze({
  /** Entries of updates, as in Kubernetes. The oldest ones are merged beyond this. */
  updateManagers: 10,
  /** Entries of applies. Each costs every write of its object a comparison. */
  applyManagers: 64,
  /** Bytes of a manager's name, as in Kubernetes. */
  nameBytes: 128,
})

/** An applier has one entry, whichever version it applies; an updater has one for each version. */
export function isSameManager(a: Manager, b: Manager): boolean {
  return (
    a.manager === b.manager &&
    a.operation === b.operation &&
    a.subresource === b.subresource &&
    (a.operation === 'Apply' || a.apiVersion === b.apiVersion)
  )
}

/** The fields of one manager: a managed fields entry whose fields are decoded. */
export interface OwnedFields extends Manager {
  readonly time?: string
  readonly fields: FieldSet
}

/** Returns the entry of a manager with other fields, without a time. */
export function ownedBy(
  { manager, operation, apiVersion, subresource }: Manager,
  fields: FieldSet,
): OwnedFields {
  return { manager, operation, apiVersion, ...(subresource !== undefined && { subresource }), fields }
}

/** Decodes stored managed fields. */
export function fromStored(entries: readonly ManagedFieldsEntry[]): OwnedFields[] {
  return entries.map(({ time, fieldsV1, ...who }) => {
    const owned = ownedBy(who, decodeFields(fieldsV1))
    return time === undefined ? owned : { ...owned, time }
  })
}

/** What a request says about `metadata.managedFields`. */
export type SentManagedFields =
  | { readonly kind: 'absent' }
  /** Ends the tracking. */
  | { readonly kind: 'reset' }
  | { readonly kind: 'given'; readonly entries: readonly OwnedFields[] }

const absent: SentManagedFields = Object.freeze({ kind: 'absent' })

/**
 * Reads the managed fields in the body of a write to an object that has some. A list with one empty entry resets them.
 * An empty or malformed list counts as absent, so that a client that does not understand the field cannot lose it. From
 * `decodeLiveOrNew` of Kubernetes' `managedfields/internal/fieldmanager.go`.
 */
export function readManagedFields(value: unknown, stored: readonly ManagedFieldsEntry[]): SentManagedFields {
  // Patches, and most replacements, send back the stored ones.
  if (!Array.isArray(value) || deepEqual(value, stored)) return absent
  const [first, ...others] = value
  if (first === undefined) return absent
  if (others.length === 0 && isRecord(first) && isEmptyEntry(first)) return { kind: 'reset' }
  const entries: OwnedFields[] = []
  for (const item of value) {
    const entry = readEntry(item)
    if (entry === undefined) return absent
    const same = entries.findIndex(other => isSameManager(other, entry))
    if (same < 0) entries.push(entry)
    else entries[same] = entry
    if (entries.length > maxEntries) return absent
  }
  return { kind: 'given', entries }
}

const maxEntries = managedFieldsDefaults.applyManagers + managedFieldsDefaults.updateManagers

function isEmptyEntry(entry: Readonly<Record<string, unknown>>): boolean {
  return Object.values(entry).every(value => value === null || value === '')
}

function readEntry(value: unknown): OwnedFields | undefined {
  if (!isRecord(value)) return undefined
  const { manager = '', operation, apiVersion, subresource = '', time, fieldsType, fieldsV1 = {} } = value
  if (operation !== 'Apply' && operation !== 'Update') return undefined
  if (typeof apiVersion !== 'string' || apiVersion === '' || fieldsType !== 'FieldsV1') return undefined
  if (typeof manager !== 'string' || problemOfManager(manager) !== undefined) return undefined
  if (typeof subresource !== 'string' || subresource.length > maxSubresourceLength) return undefined
  try {
    const who = { manager, operation, apiVersion, ...(subresource !== '' && { subresource }) } as const
    const entry = ownedBy(who, readFieldSet(fieldsV1))
    return typeof time === 'string' && !Number.isNaN(Date.parse(time)) ? { ...entry, time } : entry
  } catch (error) {
    if (error instanceof PathElementError || error instanceof TypeError) return undefined
    throw error
  }
}

const maxSubresourceLength = 256

/** Returns why a text is not the name of a manager, or undefined. */
export function problemOfManager(name: string): { reason: string; message: string } | undefined {
  if (Buffer.byteLength(name) > managedFieldsDefaults.nameBytes)
    return {
      reason: 'FieldValueTooLong',
      message: `must be at most ${managedFieldsDefaults.nameBytes} bytes`,
    }
  if (!unprintable.test(name)) return undefined
  return { reason: 'FieldValueInvalid', message: 'must have printable characters only' }
}

/** Whatever is no letter, mark, number, punctuation or symbol, except the blank, as Go's `unicode.IsPrint`. */
const unprintable = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/u
const allUnprintable = new RegExp(unprintable.source, 'gu')

/** Returns the manager's name that a User-Agent gives: its printable characters before the first slash. */
export function managerOfUserAgent(userAgent: string): string {
  const name = (userAgent.split('/', 1)[0] ?? '').replace(allUnprintable, '')
  let text = ''
  let bytes = 0
  for (const character of name) {
    bytes += Buffer.byteLength(character)
    if (bytes > managedFieldsDefaults.nameBytes) break
    text += character
  }
  return text
}

/** Merges the oldest entries of updates of each version beyond the bound. From Kubernetes' `capmanagers.go`. */
export function capUpdates(entries: readonly OwnedFields[]): readonly OwnedFields[] {
  const updates = entries.filter(({ operation }) => operation === 'Update')
  let surplus = updates.length - managedFieldsDefaults.updateManagers
  if (surplus <= 0) return entries
  const kept = new Set(entries)
  const oldest = new Map<string, OwnedFields>()
  for (const update of updates.sort(byAge)) {
    if (surplus <= 0) break
    const { apiVersion, time } = update
    const older = oldest.get(apiVersion)
    if (older === undefined) {
      oldest.set(apiVersion, update)
      continue
    }
    const fields = union(older.fields, update.fields)
    const merged = { ...ownedBy(bucketOf(apiVersion), fields), ...(time !== undefined && { time }) }
    kept.delete(older)
    kept.delete(update)
    kept.add(merged)
    oldest.set(apiVersion, merged)
    surplus--
  }
  return [...kept]
}

function bucketOf(apiVersion: string): Manager {
  return { manager: 'ancient-changes', operation: 'Update', apiVersion }
}

/** Entries that were merged before come first. */
function byAge(a: OwnedFields, b: OwnedFields): number {
  const isMerged = (entry: OwnedFields) => Number(isSameManager(entry, bucketOf(entry.apiVersion)))
  return (
    isMerged(b) - isMerged(a) ||
    secondsOf(a) - secondsOf(b) ||
    compareCodePoints(identityOf(a), identityOf(b))
  )
}

function identityOf({ manager, apiVersion, subresource = '' }: Manager): string {
  return `${manager}\0${apiVersion}\0${subresource}`
}

function secondsOf({ time }: OwnedFields): number {
  return time === undefined ? 0 : Math.floor(Date.parse(time) / 1000)
}

/** Encodes the entries as they are stored: in Kubernetes' order, without empty ones, or undefined without any. */
export function toStored(entries: readonly OwnedFields[]): ManagedFieldsEntry[] | undefined {
  const stored = entries
    .filter(({ fields }) => !isEmpty(fields))
    .sort(
      (a, b) =>
        compareCodePoints(a.operation, b.operation) ||
        secondsOf(a) - secondsOf(b) ||
        compareCodePoints(identityOf(a), identityOf(b)),
    )
    .map(({ fields, time, ...who }) => ({
      ...who,
      fieldsType: 'FieldsV1' as const,
      fieldsV1: encodeFields(fields),
      ...(time !== undefined && { time }),
    }))
  return stored.length === 0 ? undefined : stored
}
