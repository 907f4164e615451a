import { isRecord, isReservedDomain, labelPrefix, nameLimits } from '@setpoint/controller-runtime/api'
import { formatPath } from '../model/index.ts'
import type { ResourceWriter } from './resource-writer.ts'

export const shippedDefaults = Object.freeze({
  /**
   * Most bytes of a document as JSON. It is recorded in an annotation, and an eighth of the annotations' limit stays
   * free for others.
   */
  documentBytes: (nameLimits.annotationBytes / 8) * 7,
  /** Most unknown fields named in a problem. */
  shownFields: 10,
})

/** The reason why a document is not applied, other than an error of the API. */
export class NotApplied extends Error {
  override readonly name = 'NotApplied'
  readonly transient: boolean

  constructor(message: string, { transient }: { transient: boolean } = { transient: false }) {
    super(message)
    this.transient = transient
  }
}

/** A valid document: the object that it declares, and its content. */
export interface Shipped {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly namespace: string | undefined
  /** The content without apiVersion, kind, name, namespace and fields that only the server sets. */
  readonly content: {
    readonly metadata: Readonly<Record<string, unknown>>
    readonly [field: string]: unknown
  }
}

/** Fields of metadata that only the server sets. They are ignored in a file. */
const serverFields: ReadonlySet<string> = new Set([
  'uid',
  'version',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'managedFields',
  'selfLink',
])

/** Fields of metadata that a file can set. */
const metadataFields: ReadonlySet<string> = new Set([
  'name',
  'labels',
  'annotations',
  'finalizers',
  'ownerReferences',
])

/** Names the fields of an applied document that its kind does not know. */
export function describeUnknownFields(
  { apiVersion, kind, name, content }: Shipped,
  writer: ResourceWriter,
): string | undefined {
  const fields = [
    ...Object.keys(content.metadata).flatMap(field =>
      metadataFields.has(field) ? [] : [formatPath(['metadata', field])],
    ),
    ...writer.unknownFields({ apiVersion, kind, ...content }),
  ]
  if (fields.length === 0) return undefined
  const shown = fields.slice(0, shippedDefaults.shownFields)
  const more = fields.length > shown.length ? ` and ${fields.length - shown.length} more` : ''
  return `${kind} ${name} is applied, but its kind does not know the fields ${shown.join(', ')}${more}`
}

/** @throws NotApplied for an invalid document; ApiError as `writer.isNamespaced` */
export function readShipped(
  value: unknown,
  { reservedDomain, writer }: { readonly reservedDomain: string; readonly writer: ResourceWriter },
): Shipped {
  if (!isRecord(value))
    throw new NotApplied('a document must be a mapping with apiVersion, kind and metadata')
  const { apiVersion, kind, metadata, ...content } = value
  if (typeof apiVersion !== 'string' || !/^([^/]+\/)?[^/]+$/.test(apiVersion)) {
    throw new NotApplied('apiVersion must be <group>/<version>, or <version> for the core group')
  }
  if (typeof kind !== 'string' || kind === '') throw new NotApplied('kind must be a string')
  if (!isRecord(metadata)) throw new NotApplied('metadata must be a mapping with a name')
  const { name, ...fields } = metadata
  // With generateName each start would create another object.
  if (typeof name !== 'string' || name === '') throw new NotApplied('metadata.name must be a string')
  const namespace = namespaceOf(metadata, writer.isNamespaced(apiVersion, kind), kind)
  if (namespace !== undefined) delete fields.namespace
  const kept = Object.entries(fields).filter(([field, given]) => !serverFields.has(field) && given !== null)
  const shipped = {
    apiVersion,
    kind,
    name,
    namespace,
    content: { ...content, metadata: Object.fromEntries(kept) },
  }
  const problems = [
    ...keysOf(shipped, 'labels').map(key => labelProblem(key, reservedDomain)),
    ...keysOf(shipped, 'annotations').map(key => annotationProblem(key, reservedDomain)),
  ].filter(problem => problem !== undefined)
  if (problems.length > 0) throw new NotApplied(problems.join('; '))
  const size = Buffer.byteLength(JSON.stringify(shipped.content))
  if (size > shippedDefaults.documentBytes) {
    throw new NotApplied(
      `the document is too large: ${size} bytes as JSON, the limit is ${shippedDefaults.documentBytes}`,
    )
  }
  return shipped
}

/** Returns the namespace of an object whose kind is namespaced. */
function namespaceOf(
  { namespace }: Readonly<Record<string, unknown>>,
  isNamespaced: boolean,
  kind: string,
): string | undefined {
  if (!isNamespaced) return undefined
  if (typeof namespace === 'string' && namespace !== '') return namespace
  throw new NotApplied(`metadata.namespace must be a string: ${kind} is a namespaced kind`)
}

function keysOf({ content }: Shipped, field: 'labels' | 'annotations'): string[] {
  const map = content.metadata[field]
  if (map === undefined) return []
  if (!isRecord(map)) throw new NotApplied(`metadata.${field} must be a mapping`)
  return Object.keys(map)
}

function labelProblem(key: string, reservedDomain: string): string | undefined {
  const prefix = labelPrefix(key)
  if (prefix === undefined) {
    return `metadata.labels: ${JSON.stringify(key)} has no prefix; a plugin's labels are <its domain>/<name>`
  }
  return isReservedDomain(prefix, reservedDomain)
    ? `metadata.labels: the prefix of ${JSON.stringify(key)} is reserved; a plugin's labels are <its domain>/<name>`
    : undefined
}

function annotationProblem(key: string, reservedDomain: string): string | undefined {
  return labelPrefix(key) === `plugins.${reservedDomain}`
    ? `metadata.annotations: ${JSON.stringify(key)} can only be set by the server`
    : undefined
}
