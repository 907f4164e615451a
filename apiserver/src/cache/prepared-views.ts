import { systemClock } from '@setpoint/controller-runtime'
import { type ApiError, isApiError } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import { ConversionNeeded, type Release, type ServedVersion } from '../model/index.ts'
import { type Entry, mayBeConverted } from './entry.ts'
import type { ModelCache } from './model-cache.ts'

export const preparedViewsDefaults = Object.freeze({
  /** Objects, and bytes of them, that are decoded and converted together. */
  objects: 500,
  bytes: 2 * 1024 * 1024,
})

/** The wire JSON of entries in one version, or the error of each that cannot be shown. */
export type PreparedViews = ReadonlyMap<Entry, Buffer | ApiError>

interface PrepareOptions {
  readonly signal?: AbortSignal | undefined
  /** True if nothing is needed after a failure. */
  readonly endsEarly?: boolean
}

/**
 * Returns what shows entries in a version, after a webhook has converted those that it must. For an entry that cannot
 * be shown, it throws.
 * @throws the error of an entry that a webhook could not convert; the signal's reason
 */
export async function shownIn(
  cache: ModelCache,
  entries: readonly Entry[],
  version: ServedVersion,
  whenGone: () => AbortSignal | undefined,
): Promise<(entry: Entry) => Buffer> {
  const bytesOf = (entry: Entry) => cache.bytesOf(entry, version)
  const isConverted = cache.served.defined?.converter !== undefined
  if (!isConverted || (version.isHub && !entries.some(mayBeConverted))) return bytesOf
  const views = await prepareViews(cache, entries, version, { signal: whenGone(), endsEarly: true })
  for (const view of views.values()) if (!Buffer.isBuffer(view)) throw view
  return entry => {
    const view = views.get(entry)
    return Buffer.isBuffer(view) ? view : bytesOf(entry)
  }
}

/**
 * Returns the wire JSON of entries in a version, after a webhook has converted those that it must, many in one request.
 * @throws the signal's reason
 */
export async function prepareViews(
  cache: ModelCache,
  entries: readonly Entry[],
  version: ServedVersion,
  options: PrepareOptions = {},
): Promise<PreparedViews> {
  const views = new Map<Entry, Buffer | ApiError>()
  const show = (entry: Entry) => viewOf(cache, entry, version)
  const yielder = new Yielder(systemClock)
  let some: Entry[] = []
  let bytes = 0
  for (const entry of entries) {
    some.push(entry)
    bytes += entry.bytes.length
    const { objects, bytes: most } = preparedViewsDefaults
    if (some.length < objects && bytes < most) continue
    const hasFailed = await prepareSome(some, show, views, yielder, options.signal)
    if (hasFailed && options.endsEarly) return views
    some = []
    bytes = 0
  }
  await prepareSome(some, show, views, yielder, options.signal)
  return views
}

/** Returns true after a failure. */
async function prepareSome(
  entries: readonly Entry[],
  show: (entry: Entry) => Buffer | ApiError | ConversionNeeded,
  views: Map<Entry, Buffer | ApiError>,
  yielder: Yielder,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const releases: Release[] = []
  let hasFailed = false
  let left = entries
  try {
    // An object that is stored in a third version is converted twice.
    while (left.length > 0) {
      const needed = new Map<Entry, ConversionNeeded>()
      for (const entry of left) {
        const view = show(entry)
        if (view instanceof ConversionNeeded) needed.set(entry, view)
        else {
          hasFailed ||= isApiError(view)
          views.set(entry, view)
        }
        const pause = yielder.pause()
        if (pause !== undefined) await pause
      }
      const conversions = [...needed.values()]
      const converter = conversions[0]?.converter
      if (converter !== undefined) releases.push(await converter.prepare(conversions, signal))
      left = [...needed.keys()]
    }
  } finally {
    for (const release of releases) release()
  }
  return hasFailed
}

function viewOf(
  cache: ModelCache,
  entry: Entry,
  version: ServedVersion,
): Buffer | ApiError | ConversionNeeded {
  try {
    return cache.bytesOf(entry, version)
  } catch (error) {
    if (error instanceof ConversionNeeded || isApiError(error)) return error
    throw error
  }
}
