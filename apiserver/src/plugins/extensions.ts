import {
  type ApiError,
  type ApiObject,
  isApiError,
  isReservedDomain,
  labelPrefix,
  nameLimits,
} from '@setpoint/controller-runtime/api'
import semver from 'semver'
import { deepEqual } from '../model/deep-equal.ts'
import { createMergePatch } from '../registry/patch.ts'
import { type ExtensionDocument, type ExtensionProblem, readExtensions } from './extensions-files.ts'
import { isRecord, mergeShipped } from './extensions-merge.ts'

export type { ExtensionProblem } from './extensions-files.ts'

/** The way to the objects that extensions are applied through; it acts as the plugin. */
export interface ResourceWriter {
  /**
   * The object as the store has it now (not as a cache may remember it), or undefined where there is none.
   * @throws ApiError NotFound where the kind is not served, ServiceUnavailable where it is not ready.
   */
  get(apiVersion: string, kind: string, name: string): Promise<ApiObject | undefined>
  /** @throws ApiError AlreadyExists, Invalid and so on, as a POST of the object. */
  create(object: NewExtension): Promise<ApiObject>
  /**
   * Applies an RFC 7386 merge patch. Its `metadata.version` is a precondition.
   * @throws ApiError Conflict where the object has another version by now, NotFound where it is gone, Invalid and so
   *   on, as a PATCH of the object.
   */
  patch(apiVersion: string, kind: string, name: string, mergePatch: object): Promise<ApiObject>
}

/** An object as a file declares it, with the annotations that are kept on it. */
export interface NewExtension {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly annotations: Readonly<Record<string, unknown>>
    readonly [field: string]: unknown
  }
  readonly [field: string]: unknown
}

export interface ExtensionOptions {
  /** Name of the plugin: whose objects they are. */
  readonly plugin: string
  /** Semantic version of the plugin's package. */
  readonly version: string
  readonly resourcesDir: string
  readonly reservedDomain: string
  readonly writer: ResourceWriter
  /** Stops between two documents. */
  readonly signal?: AbortSignal
}

export interface ExtensionResult {
  /** Objects that were created or changed. */
  readonly applied: number
  /** Objects that already were as they should be. */
  readonly unchanged: number
  /** Documents that were not applied. */
  readonly problems: readonly ExtensionProblem[]
}

export const extensionDefaults = Object.freeze({
  /**
   * Times that an object is read again after somebody else has written it in between. As many servers as start at
   * once can be in each other's way, each once, and then a person or two.
   */
  attempts: 16,
  /**
   * Bytes of a document, as JSON: it is kept in an annotation, and this leaves an eighth of the room that an object
   * has for annotations to everyone else's.
   */
  documentBytes: (nameLimits.annotationBytes / 8) * 7,
})

/**
 * Applies the YAML documents that a plugin ships (contract, section 9, *Plugin YAML*). Several servers may do so at
 * once, and any of them as often as it likes: nothing is written when there is nothing to change.
 *
 *     object of that name          what happens
 *     none                         created, also when somebody deleted it
 *     being deleted                left; a transient problem, since it can be created once it is gone
 *     not from this plugin         left; a problem
 *     from a newer version of it   left; a problem
 *     from it                      fields that the file has changed since it was applied are set, see `mergeShipped`
 *
 * What was applied is remembered on the object, in annotations under `plugins.<reserved domain>/`. They are what
 * makes an object the plugin's, and nobody else's write of the object changes them.
 *
 * Every document is tried, whatever becomes of the others.
 * @throws only what `signal` was aborted with.
 */
export async function applyExtensions(options: ExtensionOptions): Promise<ExtensionResult> {
  const { resourcesDir, signal } = options
  const { documents, problems } = await readExtensions(resourcesDir)
  const declared = new Map<string, ExtensionDocument>()
  let applied = 0
  let unchanged = 0
  for (const document of documents) {
    signal?.throwIfAborted()
    try {
      const shipped = readShipped(document.value, options.reservedDomain)
      refuseRepetition(declared, document, shipped)
      if (await apply(shipped, options)) applied++
      else unchanged++
    } catch (error) {
      signal?.throwIfAborted()
      const { file, line } = document
      problems.push({ file, line, ...explain(error) })
    }
  }
  return { applied, unchanged, problems }
}

/** Why a document is not applied, where that is nobody's fault in the API. */
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
  // NotFound: the kind may come with another plugin, which starts later.
  const transient = isApiError(
    error,
    'NotFound',
    'Conflict',
    'TooManyRequests',
    'ServiceUnavailable',
    'Timeout',
  )
  return { message: error instanceof Error ? error.message : String(error), transient }
}

/** A document that can be applied: which object it declares, and what it says of it. */
interface Shipped {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  /** All but apiVersion, kind and metadata.name, and without what the server alone sets. */
  readonly content: {
    readonly metadata: Readonly<Record<string, unknown>>
    readonly [field: string]: unknown
  }
}

/** Fields of metadata that the server sets: in a file they mean nothing. */
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

function readShipped(value: unknown, reservedDomain: string): Shipped {
  if (!isRecord(value))
    throw new NotApplied('a document must be a mapping with apiVersion, kind and metadata')
  const { apiVersion, kind, metadata, ...content } = value
  if (typeof apiVersion !== 'string' || !/^[^/]+\/[^/]+$/.test(apiVersion)) {
    throw new NotApplied('apiVersion must be <group>/<version>')
  }
  if (typeof kind !== 'string' || kind === '') throw new NotApplied('kind must be a text')
  if (!isRecord(metadata)) throw new NotApplied('metadata must be a mapping with a name')
  const { name, ...fields } = metadata
  // Without a name of its own each start would create one more object.
  if (typeof name !== 'string' || name === '') throw new NotApplied('metadata.name must be a text')
  const kept = Object.entries(fields).filter(([field, given]) => !serverFields.has(field) && given !== null)
  const shipped = { apiVersion, kind, name, content: { ...content, metadata: Object.fromEntries(kept) } }
  const problems = [
    ...keysOf(shipped, 'labels').map(key => labelProblem(key, reservedDomain)),
    ...keysOf(shipped, 'annotations').map(key => annotationProblem(key, reservedDomain)),
  ].filter(problem => problem !== undefined)
  if (problems.length > 0) throw new NotApplied(problems.join('; '))
  const size = Buffer.byteLength(JSON.stringify(shipped.content))
  if (size > extensionDefaults.documentBytes) {
    throw new NotApplied(
      `the document is too large: ${size} bytes as JSON, of which ${extensionDefaults.documentBytes} can be remembered on the object`,
    )
  }
  return shipped
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
    ? `metadata.annotations: ${JSON.stringify(key)} is set by the server alone`
    : undefined
}

/** Two documents of one plugin for one object would undo each other at every start. */
function refuseRepetition(
  declared: Map<string, ExtensionDocument>,
  document: ExtensionDocument,
  { apiVersion, kind, name }: Shipped,
): void {
  const group = apiVersion.slice(0, apiVersion.indexOf('/'))
  const key = `${group}/${kind}/${name}`
  const first = declared.get(key)
  if (first !== undefined)
    throw new NotApplied(`${kind} ${name} is already declared at ${first.file}:${first.line}`)
  declared.set(key, document)
}

/** Makes the object what it should be. Answers whether it had to be written. */
async function apply(shipped: Shipped, options: ExtensionOptions): Promise<boolean> {
  const { apiVersion, kind, name } = shipped
  const { writer, signal } = options
  let taken: ApiError | undefined
  for (let attempt = 0; attempt < extensionDefaults.attempts; attempt++) {
    signal?.throwIfAborted()
    const live = await writer.get(apiVersion, kind, name)
    // It was not the name that was taken, then, but the value of a unique index.
    if (live === undefined && taken !== undefined) throw taken
    taken = undefined
    const patch = live === undefined ? undefined : patchFor(live, shipped, options)
    if (live !== undefined && patch === undefined) return false
    try {
      if (patch === undefined) await writer.create(newObject(shipped, options))
      else await writer.patch(apiVersion, kind, name, patch)
      return true
    } catch (error) {
      // Somebody was faster, and what there is to do depends on what they did.
      if (patch === undefined && isApiError(error, 'AlreadyExists')) taken = error
      else if (patch === undefined || !isApiError(error, 'Conflict', 'NotFound')) throw error
    }
  }
  throw new NotApplied(`${kind} ${name} was changed by others again and again`, { transient: true })
}

function newObject({ apiVersion, kind, name, content }: Shipped, options: ExtensionOptions): NewExtension {
  const annotations = isRecord(content.metadata.annotations) ? content.metadata.annotations : {}
  const metadata = { ...content.metadata, name, annotations: { ...annotations, ...notes(content, options) } }
  return { apiVersion, kind, ...content, metadata }
}

/** The merge patch from the object as it is to what it should be; undefined where it already is that. */
function patchFor(
  live: ApiObject,
  { kind, name, content }: Shipped,
  options: ExtensionOptions,
): object | undefined {
  const keys = noteKeys(options.reservedDomain)
  const annotations = live.metadata.annotations ?? {}
  if (live.metadata.deletionTimestamp !== undefined) {
    throw new NotApplied(`${kind} ${name} is being deleted; it can be created again once it is gone`, {
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
  const order = semver.valid(appliedVersion) === null ? -1 : semver.compare(appliedVersion, options.version)
  if (order > 0) {
    throw new NotApplied(
      `${kind} ${name} was applied by version ${appliedVersion} of the plugin, which is newer than ${options.version}: it is left alone`,
    )
  }
  const last = readLastApplied(annotations[keys.lastApplied])
  // Where a person has broken the record, nobody can tell their changes from ours, and theirs are the ones to keep.
  const merged = mergeShipped(last ?? content, content, live)
  const next = notes(content, options)
  const kept = {
    // Neither the order of a file's fields nor build metadata is worth a write.
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

/** Annotations that say which plugin an object came from, which version of it, and what that version's file said. */
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
