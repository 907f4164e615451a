import {
  type ApiError,
  type ApiObject,
  errorMessage,
  groupOf,
  isApiError,
  isRecord,
  isReservedDomain,
  labelPrefix,
  nameLimits,
  type ObjectKey,
  objectKey,
} from '@setpoint/controller-runtime/api'
import compareVersions from 'semver/functions/compare.js'
import validVersion from 'semver/functions/valid.js'
import { deepEqual, formatPath, type SchemaSubject } from '../model/index.ts'
import { createMergePatch } from '../registry/index.ts'
import { type ExtensionDocument, type ExtensionProblem, readExtensions } from './extensions-files.ts'
import { mergeShipped } from './extensions-merge.ts'

export type { ExtensionProblem } from './extensions-files.ts'

/** Reads and writes objects on behalf of the plugin. */
export interface ResourceWriter {
  /** Returns true if the objects of a kind are in namespaces. @throws ApiError as `get` does */
  isNamespaced(apiVersion: string, kind: string): boolean
  /**
   * Reads an object from the store, not from a cache. Returns undefined if it does not exist.
   * @throws ApiError NotFound if the kind is not served, ServiceUnavailable if it is not ready.
   */
  get(apiVersion: string, kind: string, key: ObjectKey): Promise<ApiObject | undefined>
  /** @throws ApiError as a POST of the object does */
  create(object: NewExtension): Promise<ApiObject>
  /**
   * Applies an RFC 7386 merge patch. Its `metadata.version` is a precondition.
   * @throws ApiError as a PATCH of the object does
   */
  patch(apiVersion: string, kind: string, key: ObjectKey, mergePatch: object): Promise<ApiObject>
  /**
   * Returns the paths of the fields outside metadata that the kind does not know.
   * @throws ApiError as `get` does
   */
  unknownFields(object: KindAndContent): readonly string[]
}

/** The fields of an object other than its metadata. */
export interface KindAndContent extends Readonly<SchemaSubject> {
  readonly apiVersion: string
  readonly kind: string
}

/** An object as a file declares it, with the annotations that record this. */
export interface NewExtension {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly annotations: Readonly<Record<string, unknown>>
    readonly [field: string]: unknown
  }
  readonly [field: string]: unknown
}

interface ExtensionOptions {
  /** Name of the plugin that owns the objects. */
  readonly plugin: string
  /** Semantic version of the plugin's package. */
  readonly version: string
  /** The plugin's folder. Problems name files by their path below it. */
  readonly dir: string
  readonly resourcesDir: string
  readonly reservedDomain: string
  readonly writer: ResourceWriter
  /** Stops before the next document. */
  readonly signal?: AbortSignal
}

export interface ExtensionResult {
  /** Number of objects created or changed. */
  readonly applied: number
  /** Number of objects that needed no change. */
  readonly unchanged: number
  /** Documents that were not applied or have unknown fields. */
  readonly problems: readonly ExtensionProblem[]
}

export const extensionDefaults = Object.freeze({
  /**
   * Most attempts at one object after conflicts. Servers that start at once can conflict once each, and a person or two
   * besides.
   */
  attempts: 16,
  /**
   * Most bytes of a document as JSON. It is recorded in an annotation, and an eighth of the annotations' limit stays free
   * for others.
   */
  documentBytes: (nameLimits.annotationBytes / 8) * 7,
  /** Most unknown fields named in a problem. */
  shownFields: 10,
})

/**
 * Applies the YAML documents that a plugin ships. Several servers may do so at once and repeatedly: nothing is written
 * when there is nothing to change.
 *
 *     object of that name          result
 *     absent                       created, also after a deletion
 *     being deleted                left; a transient problem, since it can be created after the deletion
 *     not from this plugin         left; a problem
 *     from a newer version of it   left; a problem
 *     from it                      fields that the file has changed since are set, see `mergeShipped`
 *
 * The applied document is recorded in annotations of the object under `plugins.<reserved domain>/`. They mark the object
 * as the plugin's, and other writers cannot change them.
 *
 * Every document is tried, whether or not the others succeed. A document with fields that its kind does not know is
 * applied, because such fields are kept, and is a problem.
 * @throws only the reason of `signal`
 */
export async function applyExtensions(options: ExtensionOptions): Promise<ExtensionResult> {
  const { dir, resourcesDir, signal } = options
  const { documents, problems } = await readExtensions(resourcesDir, dir)
  const declared = new Map<string, ExtensionDocument>()
  let applied = 0
  let unchanged = 0
  for (const document of documents) {
    signal?.throwIfAborted()
    try {
      const shipped = readShipped(document.value, options)
      refuseRepetition(declared, document, shipped)
      if (await apply(shipped, options)) applied++
      else unchanged++
      const message = describeUnknownFields(shipped, options.writer)
      if (message !== undefined) problems.push({ ...placeOf(document), message, transient: false })
    } catch (error) {
      signal?.throwIfAborted()
      problems.push({ ...placeOf(document), ...explain(error) })
    }
  }
  return { applied, unchanged, problems }
}

function placeOf({ file, line }: ExtensionDocument): Pick<ExtensionProblem, 'file' | 'line'> {
  return { file, line }
}

/** The reason why a document is not applied, other than an error of the API. */
class NotApplied extends Error {
  override readonly name = 'NotApplied'
  readonly transient: boolean

  constructor(message: string, { transient }: { transient: boolean } = { transient: false }) {
    super(message)
    this.transient = transient
  }
}

function explain(error: unknown): { message: string; transient: boolean } {
  if (error instanceof NotApplied) return { message: error.message, transient: error.transient }
  // NotFound: another plugin, which starts later, may bring the kind.
  const transient = isApiError(
    error,
    'NotFound',
    'Conflict',
    'TooManyRequests',
    'ServiceUnavailable',
    'Timeout',
  )
  return { message: errorMessage(error), transient }
}

/** A valid document: the object that it declares, and its content. */
interface Shipped {
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
function describeUnknownFields(
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
  const shown = fields.slice(0, extensionDefaults.shownFields)
  const more = fields.length > shown.length ? ` and ${fields.length - shown.length} more` : ''
  return `${kind} ${name} is applied, but its kind does not know the fields ${shown.join(', ')}${more}`
}

function readShipped(
  value: unknown,
  { reservedDomain, writer }: Pick<ExtensionOptions, 'reservedDomain' | 'writer'>,
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
  if (size > extensionDefaults.documentBytes) {
    throw new NotApplied(
      `the document is too large: ${size} bytes as JSON, the limit is ${extensionDefaults.documentBytes}`,
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

/** Rejects a second document for the same object: the two would undo each other at every start. */
function refuseRepetition(
  declared: Map<string, ExtensionDocument>,
  document: ExtensionDocument,
  { apiVersion, kind, name, namespace }: Shipped,
): void {
  const group = groupOf(apiVersion)
  const key = `${group}/${kind}/${objectKey({ namespace, name })}`
  const first = declared.get(key)
  if (first !== undefined)
    throw new NotApplied(`${kind} ${name} is already declared at ${first.file}:${first.line}`)
  declared.set(key, document)
}

/** Creates or updates the object. Returns true if it was written. */
async function apply(shipped: Shipped, options: ExtensionOptions): Promise<boolean> {
  const { apiVersion, kind, name } = shipped
  const key = objectKey(shipped)
  const { writer, signal } = options
  let taken: ApiError | undefined
  for (let attempt = 0; attempt < extensionDefaults.attempts; attempt++) {
    signal?.throwIfAborted()
    const live = await writer.get(apiVersion, kind, key)
    // The conflict was about a unique index, not the name.
    if (live === undefined && taken !== undefined) throw taken
    taken = undefined
    const patch = live === undefined ? undefined : patchFor(live, shipped, options)
    if (live !== undefined && patch === undefined) return false
    try {
      if (patch === undefined) await writer.create(newObject(shipped, options))
      else await writer.patch(apiVersion, kind, key, patch)
      return true
    } catch (error) {
      // Another writer was faster: decide again.
      if (patch === undefined && isApiError(error, 'AlreadyExists')) taken = error
      else if (patch === undefined || !isApiError(error, 'Conflict', 'NotFound')) throw error
    }
  }
  throw new NotApplied(`${kind} ${name} keeps being changed by others`, { transient: true })
}

function newObject(shipped: Shipped, options: ExtensionOptions): NewExtension {
  const { apiVersion, kind, name, namespace, content } = shipped
  const annotations = isRecord(content.metadata.annotations) ? content.metadata.annotations : {}
  const metadata = {
    ...content.metadata,
    name,
    ...(namespace !== undefined && { namespace }),
    annotations: { ...annotations, ...notes(content, options) },
  }
  return { apiVersion, kind, ...content, metadata }
}

/** Returns the merge patch that makes the object current, or undefined if it is. */
function patchFor(
  live: ApiObject,
  { kind, name, content }: Shipped,
  options: ExtensionOptions,
): object | undefined {
  const keys = noteKeys(options.reservedDomain)
  const annotations = live.metadata.annotations ?? {}
  if (live.metadata.deletionTimestamp !== undefined) {
    throw new NotApplied(`${kind} ${name} is being deleted; it is created again after that`, {
      transient: true,
    })
  }
  const owner = annotations[keys.plugin]
  if (owner !== options.plugin) {
    const whose = owner === undefined ? 'did not come from a plugin' : `came from the plugin ${owner}`
    throw new NotApplied(`${kind} ${name} exists and ${whose}: it is left alone`)
  }
  const appliedVersion = annotations[keys.version] ?? ''
  // An object without a valid version is older than any version.
  const order = validVersion(appliedVersion) === null ? -1 : compareVersions(appliedVersion, options.version)
  if (order > 0) {
    throw new NotApplied(
      `${kind} ${name} was applied by version ${appliedVersion} of the plugin, which is newer than ${options.version}: it is left alone`,
    )
  }
  const last = readLastApplied(annotations[keys.lastApplied])
  // Without a readable record every live value counts as changed by people and is kept.
  const merged = mergeShipped(last ?? content, content, live)
  const next = notes(content, options)
  const kept = {
    // Do not write for a different order of fields or different build metadata.
    ...(deepEqual(last, content) && { [keys.lastApplied]: annotations[keys.lastApplied] }),
    ...(order === 0 && { [keys.version]: appliedVersion }),
  }
  const target = withAnnotations(merged, { ...next, ...kept })
  const patch = createMergePatch(live, target)
  if (!isRecord(patch)) return undefined
  const metadata = isRecord(patch.metadata) ? patch.metadata : {}
  return { ...patch, metadata: { ...metadata, version: live.metadata.version } }
}

function withAnnotations(object: unknown, added: Readonly<Record<string, unknown>>): unknown {
  const content = isRecord(object) ? object : {}
  const metadata = isRecord(content.metadata) ? content.metadata : {}
  const annotations = isRecord(metadata.annotations) ? metadata.annotations : {}
  return { ...content, metadata: { ...metadata, annotations: { ...annotations, ...added } } }
}

/** Annotations that record the plugin of an object, its version, and the document of that version. */
function noteKeys(reservedDomain: string): { plugin: string; version: string; lastApplied: string } {
  const prefix = `plugins.${reservedDomain}`
  return { plugin: `${prefix}/plugin`, version: `${prefix}/version`, lastApplied: `${prefix}/last-applied` }
}

function notes(content: Shipped['content'], options: ExtensionOptions): Record<string, string> {
  const keys = noteKeys(options.reservedDomain)
  return {
    [keys.plugin]: options.plugin,
    [keys.version]: options.version,
    [keys.lastApplied]: JSON.stringify(content),
  }
}

function readLastApplied(text: string | undefined): unknown {
  try {
    const value: unknown = text === undefined ? undefined : JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}
