import { checkLabelKey, checkLabelValue, isRecord } from '@setpoint/controller-runtime/api'
import { recordOf, textOf } from '../../kubernetes/index.ts'
import { type BareMeta, type BareObject, objectLimits, quote, setOwn } from '../../model/index.ts'

/**
 * Returns the object that a webhook has made of another one. As in Kubernetes, it keeps the metadata of the original but for
 * labels and annotations.
 * @throws Error that says what is wrong: a predicate of the webhook, such as `returned invalid object: ...`
 */
export function convertedObject(original: BareObject, value: unknown, to: string): BareObject {
  const converted = recordOf(value)
  const { apiVersion, kind, metadata, spec, status, ...others } = converted
  const invalid = (problem: string) => new Error(`returned invalid object at index 0: ${problem}`)
  if (apiVersion !== to) throw invalid(`invalid groupVersion (expected ${to}, received ${shown(apiVersion)})`)
  if (kind !== original.kind)
    throw invalid(`invalid kind (expected ${original.kind}, received ${shown(kind)})`)
  const given = recordOf(metadata)
  for (const [field, title] of identity) {
    const [expected, actual] = [textOf(original.metadata[field]), shown(given[field])]
    if (expected !== actual)
      throw new Error(`returned invalid object: must have the same ${title}: ${expected} != ${actual}`)
  }
  const object: BareObject = {
    apiVersion: to,
    kind: original.kind,
    metadata: restoredMetadata(original.metadata, metadata),
    spec,
  }
  if (spec === undefined) delete object.spec
  if (status !== undefined) object.status = status
  return Object.assign(object, others)
}

const identity = [
  ['name', 'name'],
  ['namespace', 'namespace'],
  ['uid', 'UID'],
] as const

function restoredMetadata(original: BareMeta, given: unknown): BareMeta {
  if (!isRecord(given))
    throw invalidMetadata(given === undefined ? 'missing metadata in converted object' : 'it is not a map')
  const { labels, annotations, managedFields, ...others } = original
  const metadata: BareMeta = others
  const nextLabels = mapOf('labels', given.labels, labels, checkLabels)
  if (nextLabels !== undefined) metadata.labels = nextLabels
  const nextAnnotations = mapOf('annotations', given.annotations, annotations, checkAnnotations)
  if (nextAnnotations !== undefined) metadata.annotations = nextAnnotations
  if (managedFields !== undefined) metadata.managedFields = managedFields
  return metadata
}

/** Returns a map of texts. One that equals the original is not checked again. */
function mapOf(
  field: string,
  given: unknown,
  original: Readonly<Record<string, string>> = {},
  check: (map: Readonly<Record<string, string>>) => string | undefined,
): Record<string, string> | undefined {
  if (given === undefined || given === null) return undefined
  if (!isRecord(given))
    throw invalidMetadata(`invalid metadata.${field} in converted object: it is not a map`)
  const map: Record<string, string> = {}
  for (const [key, value] of Object.entries(given)) {
    if (typeof value !== 'string')
      throw invalidMetadata(`metadata.${field}[${quote(key)}] must be a string in the converted object`)
    setOwn(map, key, value)
  }
  const keys = Object.keys(map)
  const isSame =
    keys.length === Object.keys(original).length &&
    keys.every(key => Object.hasOwn(original, key) && original[key] === map[key])
  const problem = isSame ? undefined : check(map)
  if (problem !== undefined) throw invalidMetadata(problem)
  return keys.length === 0 ? undefined : map
}

function checkLabels(labels: Readonly<Record<string, string>>): string | undefined {
  for (const [key, value] of Object.entries(labels)) {
    const problem = checkLabelKey(key) ?? checkLabelValue(value)
    if (problem !== undefined) return `metadata.labels: Invalid value: ${quote(key)}: ${problem}`
  }
  return undefined
}

function checkAnnotations(annotations: Readonly<Record<string, string>>): string | undefined {
  let bytes = 0
  for (const [key, value] of Object.entries(annotations)) {
    const problem = checkLabelKey(key.toLowerCase())
    if (problem !== undefined) return `metadata.annotation: Invalid value: ${quote(key)}: ${problem}`
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value)
  }
  const { annotationBytes } = objectLimits
  return bytes > annotationBytes
    ? `metadata.annotation: Too long: may not be more than ${annotationBytes} bytes`
    : undefined
}

function invalidMetadata(problem: string): Error {
  return new Error(`returned invalid metadata: ${problem}`)
}

const longestShown = 253

function shown(value: unknown): string {
  return textOf(value).slice(0, longestShown)
}
