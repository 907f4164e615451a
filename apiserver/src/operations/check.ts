import { systemClock } from '@setpoint/controller-runtime'
import { Yielder } from '@setpoint/controller-runtime/internal'
import { objectsPrefix } from '../model/index.ts'
import {
  decodeRecord,
  type ModelRecord,
  migrationsPrefix,
  recordsPrefix,
  reservationsPrefix,
  versionOf,
} from '../registry/index.ts'
import {
  currentPages,
  formatKey,
  type KeyValue,
  type Storage,
  StoredInTheClearError,
  undecrypted,
} from '../storage/index.ts'
import { boundExceeded, readObject } from './check-object.ts'
import { readTogether } from './check-reads.ts'
import { type CheckReport, type Finding, Findings } from './check-report.ts'
import { type RecordedValue, ReservationCheck } from './check-reservations.ts'

interface CheckOptions {
  readonly storage: Storage
  /** True to repair what can be repaired without losing anything. */
  readonly repair: boolean
  /** True if a repair also removes signing keys of service accounts that cannot be read. */
  readonly dropSigningKeys: boolean
  readonly signal: AbortSignal
  /** Called with each of the first findings. */
  readonly onFinding?: (finding: Finding) => void
  /** Called after each page with the number of keys checked so far. */
  readonly onProgress?: (keys: number) => void
}

/**
 * Walks a store and checks all that can be checked without the models of plugins. It needs memory for a page and for
 * the record of each kind, and no history, so it may run while servers write: what it reports was so at one revision.
 * @throws the store's errors, the signal's reason
 */
export async function checkStore(options: CheckOptions): Promise<CheckReport> {
  const { storage, signal, onProgress } = options
  const check = new StoreCheck(options)
  let keys = 0
  for await (const pairs of currentPages(storage, '', { signal })) {
    await check.page(pairs)
    keys += pairs.length
    onProgress?.(keys)
  }
  return check.report()
}

const signingKeys = 'authentication/service-account-keys'
/** The other keys that are not below a prefix. `tip` and `fence` of etcd are not listed. */
const single: ReadonlySet<string> = new Set(['compaction', formatKey])

/** The kind of the key before, and its namespace, whose existence has been checked. */
interface Place {
  readonly resource: string
  readonly namespace: string | undefined
}

class StoreCheck {
  readonly #storage: Storage
  readonly #signal: AbortSignal
  readonly #repair: boolean
  readonly #dropSigningKeys: boolean
  readonly #findings: Findings
  readonly #reservationCheck: ReservationCheck
  readonly #yielder = new Yielder(systemClock)
  /** The records, by resource. They come before the objects. */
  readonly #records = new Map<string, ModelRecord | undefined>()
  #place: Place | undefined
  #kinds = 0
  #objects = 0
  #reservations = 0

  constructor({ storage, repair, dropSigningKeys, signal, onFinding }: CheckOptions) {
    this.#storage = storage
    this.#signal = signal
    this.#repair = repair
    this.#dropSigningKeys = dropSigningKeys
    this.#findings = new Findings(onFinding ?? (() => {}))
    this.#reservationCheck = new ReservationCheck({ storage, repair, signal, findings: this.#findings })
  }

  async report(): Promise<CheckReport> {
    const { current } = await this.#storage.head({ signal: this.#signal })
    return {
      revision: current,
      objects: this.#objects,
      reservations: this.#reservations,
      kinds: this.#kinds,
      ...this.#findings.summary,
    }
  }

  /** Checks a page of the walk, in the order of keys. */
  async page(pairs: readonly KeyValue[]): Promise<void> {
    const recorded: RecordedValue[] = []
    const reservations: KeyValue[] = []
    for (const pair of pairs) {
      const { key } = pair
      if (key.startsWith(objectsPrefix)) recorded.push(...(await this.#object(pair)))
      else if (key.startsWith(reservationsPrefix)) reservations.push(pair)
      else if (key.startsWith(recordsPrefix)) this.#record(pair)
      else if (key.startsWith(migrationsPrefix)) await this.#migration(pair)
      else if (key === signingKeys) await this.#signingKeys(pair)
      else if (!single.has(key)) this.#findings.add('unknown key', key, 'no part of Setpoint writes it')
      const pause = this.#yielder.pause()
      if (pause !== undefined) await pause
    }
    this.#reservations += reservations.length
    await this.#reservationCheck.checkRecorded(recorded)
    await this.#reservationCheck.checkReservations(reservations)
  }

  #record({ key, value }: KeyValue): void {
    this.#kinds++
    const record = decodeRecord(value)
    this.#records.set(key.slice(recordsPrefix.length), record)
    if (record === undefined) this.#findings.add('malformed record', key, 'it does not list unique indexes')
  }

  async #migration({ key, modRevision }: KeyValue): Promise<void> {
    const record = recordsPrefix + key.slice(migrationsPrefix.length)
    if ((await this.#storage.get(record, { signal: this.#signal })).pair !== undefined) return
    const repaired = this.#repair && (await this.#remove({ key, modRevision }))
    this.#findings.add('orphaned migration', key, 'its kind has no record', repaired)
  }

  /** Servers make new keys when there are none. */
  async #signingKeys(pair: KeyValue): Promise<void> {
    const { key, value, failure } = pair
    const sealed = undecrypted(pair)
    if (sealed === undefined && isList(value)) return
    // Without the configuration a value is sealed, and has no failure: its key may well be there.
    const isClear = sealed instanceof StoredInTheClearError
    const isLost = sealed === undefined || (failure !== undefined && !isClear)
    const repaired = this.#repair && this.#dropSigningKeys && isLost && (await this.#remove(pair))
    if (sealed === undefined)
      this.#findings.add('malformed signing keys', key, 'it is not a list in JSON', repaired)
    else {
      const problem = isClear ? 'signing keys stored in the clear' : 'signing keys that cannot be decrypted'
      this.#findings.add(problem, key, `it ${sealed.message}`, repaired)
    }
  }

  /** Returns false if the key has been written since. */
  async #remove({ key, modRevision }: Pick<KeyValue, 'key' | 'modRevision'>): Promise<boolean> {
    const compares = [{ key, modRevision }]
    const removal = { compares, onSuccess: [{ type: 'delete' as const, key }] }
    return (await this.#storage.transact(removal, { signal: this.#signal })).succeeded
  }

  /** Returns the unique values that the object has recorded. */
  async #object(pair: KeyValue): Promise<RecordedValue[]> {
    const { key, value } = pair
    this.#objects++
    const [group = '', plural = ''] = key.slice(objectsPrefix.length).split('/', 2)
    const resource = `${group}/${plural}`
    const name = key.slice(objectsPrefix.length + resource.length + 1)
    const slash = name.indexOf('/')
    const namespace = slash < 0 ? undefined : name.slice(0, slash)
    await this.#enter({ resource, namespace }, key)
    const sealed = undecrypted(pair)
    if (sealed !== undefined) {
      const isClear = sealed instanceof StoredInTheClearError
      const problem = isClear ? 'object stored in the clear' : 'object that cannot be decrypted'
      this.#findings.add(problem, key, `it ${sealed.message}`)
      return []
    }
    const object = readObject(name, value)
    if (typeof object === 'string') {
      this.#findings.add('malformed object', key, object)
      return []
    }
    const exceeded = boundExceeded(object, value)
    if (exceeded !== undefined) this.#findings.add('object past a bound', key, exceeded)
    const record = this.#records.get(resource)
    if (record?.scope !== undefined && (record.scope === 'Namespaced') !== (namespace !== undefined))
      this.#findings.add('object in another scope', key, `its kind has the scope ${record.scope}`)
    await this.#version(key, value, record)
    return Object.entries(object.reservations).flatMap(([index, values]) =>
      values.map(each => ({ resource, name, uid: object.uid, index, value: each })),
    )
  }

  /** Checks the kind and the namespace of an object, if they are not those of the object before. */
  async #enter(place: Place, key: string): Promise<void> {
    const before = this.#place
    this.#place = place
    const { resource, namespace } = place
    if (before?.resource !== resource && !this.#records.has(resource)) {
      const record = recordsPrefix + resource
      const [object, found] = await readTogether(this.#storage, [key, record], this.#signal)
      this.#records.set(resource, found && decodeRecord(found.value))
      this.#kinds++
      if (object !== undefined && found === undefined)
        this.#findings.add('kind without a record', record, 'there are objects of it')
    }
    if (namespace === undefined || (before?.resource === resource && before.namespace === namespace)) return
    const [object, found] = await readTogether(
      this.#storage,
      [key, `${objectsPrefix}/namespaces/${namespace}`],
      this.#signal,
    )
    if (object !== undefined && found === undefined)
      this.#findings.add(
        'object in no namespace',
        key,
        `it is the first one in the namespace ${namespace}, which does not exist`,
      )
  }

  /** A server may have changed the record since the walk has seen it. */
  async #version(key: string, value: Buffer, record: ModelRecord | undefined): Promise<void> {
    const version = versionOf(value)
    if (record?.stored === undefined || version === undefined || record.stored.all.includes(version)) return
    const [group = '', plural = ''] = key.slice(objectsPrefix.length).split('/', 2)
    const keys = [key, `${recordsPrefix}${group}/${plural}`]
    const [object, found] = await readTogether(this.#storage, keys, this.#signal)
    const all = found && decodeRecord(found.value)?.stored?.all
    const now = object && versionOf(object.value)
    if (all === undefined || now === undefined || all.includes(now)) return
    this.#findings.add(
      'object in an unrecorded version',
      key,
      `it is stored in ${now}, not in ${all.join(' or ')}`,
    )
  }
}

function isList(value: Buffer): boolean {
  try {
    return Array.isArray(JSON.parse(value.toString()))
  } catch {
    return false
  }
}
