import {
  atHub,
  type BareObject,
  ConversionError,
  decodeWire,
  encodeObject,
  type ServedModel,
  type ServedVersion,
  wireBytes,
} from '../model/index.ts'
import type { Entry } from './entry.ts'

export const viewDefaults = Object.freeze({
  /** Bytes of converted objects kept for each version of a kind, with the entries that they were made from. */
  maxBytes: 32 * 1024 * 1024,
})

/** The wire JSON of an entry in another version, or the error of its conversion. */
type View = Buffer | ConversionError

/**
 * The wire bytes of one kind's objects in versions other than the hub. An entry is converted when a client first asks
 * for that version. Lists and watches of all clients share the result.
 *
 * Keeps two generations of at most half the bound each. A view that is used moves to the young one; when that is full,
 * it becomes the old one, and the previous old one is dropped.
 */
export class ConvertedViews {
  readonly #versions = new Map<
    ServedVersion,
    { young: Map<Entry, View>; old: Map<Entry, View>; bytes: number }
  >()
  readonly #served: ServedModel
  readonly #onFailure: (entry: Entry, error: ConversionError) => void
  readonly #maxBytes: number

  /** @param onFailure called when an entry is converted and fails; not for a failure that is kept */
  constructor(
    served: ServedModel,
    onFailure: (entry: Entry, error: ConversionError) => void,
    maxBytes: number = viewDefaults.maxBytes,
  ) {
    this.#served = served
    this.#onFailure = onFailure
    this.#maxBytes = maxBytes
  }

  /** Returns the wire JSON of an entry in a version. @throws ConversionError; ConversionNeeded */
  bytesOf(entry: Entry, version: ServedVersion): Buffer {
    const kept = this.#keptOf(version)
    let view = kept.young.get(entry)
    if (view === undefined) {
      view = kept.old.get(entry) ?? this.#convert(entry, version)
      kept.young.set(entry, view)
      kept.bytes += entry.bytes.length + (Buffer.isBuffer(view) ? view.length : 0)
      if (kept.bytes > this.#maxBytes / 2) {
        kept.old = kept.young
        kept.young = new Map()
        kept.bytes = 0
      }
    }
    if (Buffer.isBuffer(view)) return view
    throw view
  }

  #keptOf(version: ServedVersion) {
    let kept = this.#versions.get(version)
    if (kept === undefined) {
      kept = { young: new Map(), old: new Map(), bytes: 0 }
      this.#versions.set(version, kept)
    }
    return kept
  }

  #convert(entry: Entry, version: ServedVersion): View {
    const { name, revision } = entry
    try {
      const converted = this.#objectIn(entry, version)
      return wireBytes(version, name, Buffer.from(encodeObject(converted)), revision)
    } catch (error) {
      if (!(error instanceof ConversionError) || error.mayPass) throw error
      this.#onFailure(entry, error)
      return error
    }
  }

  #objectIn({ bytes, unconverted }: Entry, version: ServedVersion): BareObject {
    const object = decodeWire(bytes)
    if (unconverted === undefined) return version.fromHub(object)
    const at = atHub(this.#served, object)
    if (at.failure !== undefined) throw at.failure
    return version.fromHub(at.object)
  }
}
