import {
  type ApiError,
  type ApiObject,
  errorMessage,
  groupOf,
  isApiError,
  isRecord,
  objectKey,
} from '@setpoint/controller-runtime/api'
import compareVersions from 'semver/functions/compare.js'
import validVersion from 'semver/functions/valid.js'
import { deepEqual } from '../model/index.ts'
import { createMergePatch } from '../registry/index.ts'
import { type ExtensionDocument, type ExtensionProblem, readExtensions } from './extensions-files.ts'
import { mergeShipped } from './extensions-merge.ts'
import type { NewExtension, ResourceWriter } from './resource-writer.ts'
import { describeUnknownFields, NotApplied, readShipped, type Shipped } from './shipped-document.ts'

export type { ExtensionDocument, ExtensionProblem } from './extensions-files.ts'

export interface ExtensionOptions {
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
  /** The documents whose problems are transient, for another `applyDocuments`. */
  readonly left: readonly ExtensionDocument[]
}

export const extensionDefaults = Object.freeze({
  /**
   * Most attempts at one object after conflicts. Servers that start at once can conflict once each, and a person or two
   * besides.
   */
  attempts: 16,
})

/**
 * Applies the YAML documents that a plugin ships, definitions first. Several servers may do so at once and repeatedly:
 * nothing is written when there is nothing to change.
 *
 *     object of that name          result
 *     absent                       created, also after a deletion
 *     being deleted                left; a transient problem, since it can be created after the deletion
 *     not from this plugin         left; a transient problem, since it may be deleted
 *     from a newer version of it   left; a transient problem, as above
 *     from it                      fields that the file has changed since are set, see `mergeShipped`
 *
 * The applied document is recorded in annotations of the object under `plugins.<reserved domain>/`. They mark the
 * object as the plugin's, and other writers cannot change them.
 *
 * Every document is tried, whether or not the others succeed. A document with fields that its kind does not know is
 * applied, because such fields are kept, and is a problem.
 * @throws only the reason of `signal`
 */
export async function applyExtensions(options: ExtensionOptions): Promise<ExtensionResult> {
  const { dir, resourcesDir } = options
  const { documents, problems } = await readExtensions(resourcesDir, dir)
  // The objects of a definition may be in any file.
  const isDefinition = ({ value }: ExtensionDocument) =>
    isRecord(value) && value.kind === 'CustomResourceDefinition'
  const [definitions, others] = [
    documents.filter(isDefinition),
    documents.filter(each => !isDefinition(each)),
  ]
  const result = await applyDocuments([...definitions, ...others], options)
  return { ...result, problems: [...problems, ...result.problems] }
}

/** Applies documents that were read before, as `applyExtensions` does. */
export async function applyDocuments(
  documents: readonly ExtensionDocument[],
  options: ExtensionOptions,
): Promise<ExtensionResult> {
  const { signal } = options
  const declared = new Map<string, ExtensionDocument>()
  const problems: ExtensionProblem[] = []
  const left: ExtensionDocument[] = []
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
      // Only a fault of the document itself stays. Anything else can pass: a kind, a namespace or a permission that is
      // missing, a value or a name that another object has, an object that cannot be read.
      const transient = !(error instanceof NotApplied) || error.transient
      if (transient) left.push(document)
      problems.push({ ...placeOf(document), message: errorMessage(error), transient })
    }
  }
  return { applied, unchanged, problems, left }
}

function placeOf({ file, line }: ExtensionDocument): Pick<ExtensionProblem, 'file' | 'line'> {
  return { file, line }
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
    throw new NotApplied(`${kind} ${name} exists and ${whose}: it is left alone`, { transient: true })
  }
  const appliedVersion = annotations[keys.version] ?? ''
  // An object without a valid version is older than any version.
  const order = validVersion(appliedVersion) === null ? -1 : compareVersions(appliedVersion, options.version)
  if (order > 0) {
    throw new NotApplied(
      `${kind} ${name} was applied by version ${appliedVersion} of the plugin, which is newer than ${options.version}: it is left alone`,
      { transient: true },
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
