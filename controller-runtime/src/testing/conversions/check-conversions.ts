import { isDeepStrictEqual } from 'node:util'
import { errorMessage } from '../../api/error-message.ts'
import { type KeysOf, refuseUnknownKeys } from '../../api/known-keys.ts'
import type { Model } from '../../api/model.ts'
import type { ContentSchema, ConvertibleObject, ModelVersion } from '../../api/model-version.ts'
import { type SampleRandom, seededRandom } from './random.ts'
import { type SampleValues, sampleOf } from './sample.ts'

/** Defaults of `checkConversions`. */
export const conversionCheckDefaults = Object.freeze({
  /** Objects generated for each version in each direction. */
  samples: 200,
  seed: 1,
})

/** How `checkConversions` generates objects. */
export interface ConversionCheckOptions {
  /** Objects for each version in each direction. Default 200. */
  readonly samples?: number
  /** The same seed generates the same objects. Default 1. */
  readonly seed?: number
  /**
   * Values of fields that a schema describes too loosely, by version and path: `{ v1beta1: { 'spec.size': random =>
   * String(random.integer(0, 100)) } }`. Items of a list have the path `spec.list[]`.
   */
  readonly values?: Readonly<Record<string, SampleValues>>
}

const checkKeys: KeysOf<ConversionCheckOptions> = { samples: true, seed: true, values: true }

/** A conversion loses content, changes its argument, or throws. The message has the objects. */
export class ConversionCheckError extends Error {
  override readonly name = 'ConversionCheckError'
}

/**
 * Checks the conversions of a model with objects generated from its schemas:
 *
 * - an object of a version that is converted to the hub and back is the same;
 * - an object of the hub that is converted to a version and back, with itself as `previous`, is the same;
 * - for the stored version also without `previous`, because objects are read from the store that way;
 * - a conversion does not change its arguments, and gives the same result twice.
 *
 * @throws ConversionCheckError for the first failure; SampleError if a field needs an entry in `values`;
 *   TypeError for an unknown option
 */
export function checkConversions(model: Model, options: ConversionCheckOptions = {}): void {
  refuseUnknownKeys(options, checkKeys, 'the options of checkConversions')
  const { samples, seed, values = {} } = { ...conversionCheckDefaults, ...options }
  const random = seededRandom(seed)
  const hub = { name: model.version, apiVersion: model.apiVersion, schema: model.schema }
  for (const version of model.versions) {
    for (let count = 0; count < samples; count++) {
      const old = objectOf(model, version, random, values[version.name])
      const atHub = convert(model, version, 'toHub', old, undefined)
      expectSame(
        model,
        version,
        'fromHub(toHub(old))',
        old,
        convert(model, version, 'fromHub', atHub, undefined),
      )
      const current = objectOf(model, hub, random, values[hub.name])
      const shown = convert(model, version, 'fromHub', current, undefined)
      const back = convert(model, version, 'toHub', shown, current)
      expectSame(model, version, 'toHub(fromHub(hub), { previous: hub })', current, back)
      if (model.storedVersion !== version.name) continue
      const read = convert(model, version, 'toHub', shown, undefined)
      expectSame(model, version, 'toHub(fromHub(hub)) of the stored version', current, read)
    }
  }
}

function objectOf(
  { kind }: Model,
  { apiVersion, schema }: { readonly apiVersion: string; readonly schema: ContentSchema },
  random: SampleRandom,
  values: SampleValues = {},
): ConvertibleObject {
  const metadata = {
    name: 'sample',
    uid: 'sample',
    generation: 1,
    creationTimestamp: new Date(0).toISOString(),
  }
  const spec = sampleOf(schema.spec ?? {}, 'spec', random, values)
  const status =
    schema.status !== undefined && random.boolean()
      ? sampleOf(schema.status, 'status', random, values)
      : undefined
  return { apiVersion, kind, metadata, spec, ...(status !== undefined && { status }) }
}

/** Converts an object, as the server does. @throws ConversionCheckError */
function convert(
  model: Model,
  version: ModelVersion,
  direction: 'toHub' | 'fromHub',
  object: ConvertibleObject,
  previous: ConvertibleObject | undefined,
): ConvertibleObject {
  const run = (): unknown => {
    const given = copyOf(object)
    const before = previous && copyOf(previous)
    const result: unknown =
      direction === 'toHub' ? version.toHub(given, { previous: before }) : version.fromHub(given)
    if (!isDeepStrictEqual(given, object) || !isDeepStrictEqual(before, previous))
      throw new TypeError('it changes its argument')
    if (result instanceof Promise) throw new TypeError('it returns a promise')
    return copyOf(result)
  }
  const fail = (problem: string, cause?: unknown) =>
    new ConversionCheckError(`${nameOf(model, version)}: ${direction} of ${show(object)}: ${problem}`, {
      cause,
    })
  let first: unknown
  let second: unknown
  try {
    first = run()
    second = run()
  } catch (error) {
    throw fail(errorMessage(error), error)
  }
  if (!isDeepStrictEqual(first, second)) throw fail(`it returns ${show(first)}, and then ${show(second)}`)
  if (typeof first !== 'object' || first === null || !('spec' in first))
    throw fail('it must return an object with spec and status')
  const status = 'status' in first && first.status !== undefined ? { status: first.status } : {}
  const { apiVersion } = direction === 'toHub' ? model : version
  return { apiVersion, kind: object.kind, metadata: object.metadata, spec: first.spec, ...status }
}

function expectSame(
  model: Model,
  version: ModelVersion,
  trip: string,
  before: ConvertibleObject,
  after: ConvertibleObject,
): void {
  if (isDeepStrictEqual(before, after)) return
  throw new ConversionCheckError(
    `${nameOf(model, version)}: ${trip} is another object:\n  before ${show(before)}\n  after  ${show(after)}`,
  )
}

function nameOf({ kind }: Model, { name }: ModelVersion): string {
  return `${kind} ${name}`
}

function copyOf<T>(value: T): T {
  return value === undefined ? value : JSON.parse(JSON.stringify(value))
}

function show(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const { spec, status } = { spec: undefined, status: undefined, ...value }
  return JSON.stringify({ spec, status })
}
