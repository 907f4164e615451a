import { isRecord, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { decodeStored, objectsPrefix } from '../model/index.ts'
import { migrationsPrefix, recordsPrefix, reservationsPrefix } from '../registry/index.ts'
import { currentPages, type KeyValue, type Storage, undecrypted } from '../storage/index.ts'

/** What the store has of one kind. */
export interface KindContent {
  readonly plural: string
  readonly objects: number
  /** How many of the objects have finalizers. */
  readonly withFinalizers: number
  /** How many of the objects cannot be decrypted, so that their finalizers are not known. */
  readonly undecryptable: number
  /** Values that objects hold in unique indexes. */
  readonly reservations: number
  /** The revision of the record of its unique indexes and stored versions; zero if it has none. */
  readonly recordRevision: Revision
  /** True if a migration to another stored version has left its progress. */
  readonly hasMigration: boolean
}

interface Survey {
  readonly storage: Storage
  readonly group: string
  readonly signal: AbortSignal
  /** Called after each page with the number of keys seen so far. */
  readonly onProgress?: (keys: number) => void
}

/**
 * Counts what the store has of each kind of a group, by plural, in order. Needs memory for the kinds only.
 * @throws the store's errors, the signal's reason
 */
export async function surveyGroup({ storage, group, signal, onProgress }: Survey): Promise<KindContent[]> {
  const kinds = new Map<string, Counting>()
  let keys = 0
  const count = async (
    prefix: string,
    keysOnly: boolean,
    see: (kind: Counting, pair: KeyValue) => void,
  ): Promise<void> => {
    const below = `${prefix}${group}/`
    for await (const pairs of currentPages(storage, below, { signal, keysOnly })) {
      for (const pair of pairs) {
        const [plural = ''] = pair.key.slice(below.length).split('/', 1)
        const kind = kinds.get(plural) ?? newKind(plural)
        kinds.set(plural, kind)
        see(kind, pair)
      }
      keys += pairs.length
      onProgress?.(keys)
    }
  }
  // The records first: a server that starts later changes one, and the purge then stops.
  await count(recordsPrefix, true, (kind, { modRevision }) => {
    kind.recordRevision = modRevision
  })
  await count(objectsPrefix, false, (kind, pair) => {
    kind.objects++
    if (undecrypted(pair) !== undefined) kind.undecryptable++
    else if (hasFinalizers(pair.value)) kind.withFinalizers++
  })
  await count(reservationsPrefix, true, kind => {
    kind.reservations++
  })
  await count(migrationsPrefix, true, kind => {
    kind.hasMigration = true
  })
  return [...kinds.values()].sort((a, b) => (a.plural < b.plural ? -1 : 1))
}

type Counting = { -readonly [name in keyof KindContent]: KindContent[name] }

function newKind(plural: string): Counting {
  return {
    plural,
    objects: 0,
    withFinalizers: 0,
    undecryptable: 0,
    reservations: 0,
    recordRevision: zeroRevision,
    hasMigration: false,
  }
}

/** A value that does not decode has none that a controller could see. */
function hasFinalizers(value: Buffer): boolean {
  try {
    const { metadata } = decodeStored(value).object
    return isRecord(metadata) && Array.isArray(metadata.finalizers) && metadata.finalizers.length > 0
  } catch {
    return false
  }
}

/** Returns the groups of every kind that the store knows, without the built-in ones. */
export async function storedGroups(storage: Storage, signal: AbortSignal): Promise<string[]> {
  const groups = new Set<string>()
  for await (const pairs of currentPages(storage, recordsPrefix, { signal, keysOnly: true }))
    for (const { key } of pairs) groups.add(key.slice(recordsPrefix.length).split('/', 1)[0] ?? '')
  return [...groups]
}
