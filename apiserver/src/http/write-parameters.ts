import {
  ApiError,
  isRecord,
  type PropagationPolicy,
  propagationPolicies,
} from '@setpoint/controller-runtime/api'
import {
  decodeProtobuf,
  isKubernetesGroup,
  type KindName,
  loadMergeType,
  protobufType,
  strategicMergeType,
} from '../kubernetes/index.ts'
import { type DecodedBody, decodeBody, decodeDocument, quote } from '../model/index.ts'
import {
  badRequest,
  type Deletion,
  deletePreconditions,
  isLarge,
  nextTurn,
  type Patch,
  type PatchType,
  type WriteOptions,
  warningsOfFields,
} from '../registry/index.ts'
import { type ApiRequest, headerOf } from './api-request.ts'
import { invalidOptions, readForce, readManager } from './field-manager.ts'
import { parseMediaType } from './media-type.ts'
import { readBoolean } from './query-parameters.ts'

const documentTypes: Readonly<Record<string, 'json' | 'yaml'>> = Object.freeze({
  'application/json': 'json',
  'application/yaml': 'yaml',
})

/** Built-in kinds also take what Kubernetes' typed clients send. */
const builtInDocumentTypes: Readonly<Record<string, 'json' | 'yaml' | 'protobuf'>> = Object.freeze({
  ...documentTypes,
  [protobufType]: 'protobuf',
})

const patchTypes: Readonly<Record<string, PatchType | 'apply'>> = Object.freeze({
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/apply-patch+yaml': 'apply',
})

const builtInPatchTypes: Readonly<Record<string, PatchType | 'apply'>> = Object.freeze({
  ...patchTypes,
  [strategicMergeType]: 'strategic',
})

function documentTypesOf(group: string) {
  return isKubernetesGroup(group) ? builtInDocumentTypes : documentTypes
}

function patchTypesOf(group: string) {
  return isKubernetesGroup(group) ? builtInPatchTypes : patchTypes
}

/** Returns the content types of the requests to the kinds of a group, for the API documents. */
export function servedTypes(group: string): { bodies: readonly string[]; patches: readonly string[] } {
  return { bodies: Object.keys(documentTypesOf(group)), patches: Object.keys(patchTypesOf(group)) }
}

/** Reads the options of every write. @throws ApiError 400 for an unknown value */
export function readWriteOptions(request: ApiRequest): WriteOptions {
  const { query, caller, rights, signal, times } = request
  const fieldValidation = query.get('fieldValidation') ?? 'Warn'
  if (
    fieldValidation !== 'Strict' &&
    fieldValidation !== 'Warn' &&
    fieldValidation !== 'Ignore' &&
    fieldValidation !== ''
  ) {
    throw badRequest(`fieldValidation ${quote(fieldValidation)} is not one of Strict, Warn, Ignore`)
  }
  return {
    dryRun: readDryRun(query.getAll('dryRun')),
    fieldValidation: fieldValidation === '' ? 'Warn' : fieldValidation,
    plugin: caller.plugin,
    user: caller.user,
    manager: readManager(request),
    rights,
    signal,
    times,
    sentOptions: () => sentOptionsOf(query),
    ...(request.notes && { notes: request.notes }),
    whenGone: () => request.whenGone?.(),
  }
}

/**
 * Returns the options of a write in the form of Kubernetes' CreateOptions and UpdateOptions, as the client has sent
 * them.
 */
function sentOptionsOf(query: URLSearchParams): Readonly<Record<string, unknown>> {
  const dryRun = query.getAll('dryRun').filter(value => value !== '')
  const texts = ['fieldManager', 'fieldValidation'].flatMap(name => {
    const text = query.get(name)
    return text ? [[name, text] as const] : []
  })
  return { ...(dryRun.length > 0 && { dryRun }), ...Object.fromEntries(texts) }
}

function readDryRun(values: readonly unknown[]): boolean {
  const given = values.filter(value => value !== '')
  for (const value of given) {
    if (value !== 'All') throw badRequest(`dryRun ${quote(value)} is not supported, the only value is All`)
  }
  return given.length > 0
}

/** Another type must not count as absent: the deletion would happen. @throws ApiError 400 */
function listOfDryRun(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw badRequest('dryRun must be an array with the value All')
  return value
}

/** The body of a write, and what it adds to the options. */
interface ReadBody extends Pick<WriteOptions, 'dropsNulls' | 'duplicates'> {
  readonly document: unknown
}

type FieldValidation = WriteOptions['fieldValidation']

/** Reads the object of a POST or PUT, JSON or YAML; of built-in kinds protobuf too. @throws ApiError 400, 413, 415 */
export async function readObject(
  request: ApiRequest,
  validation: FieldValidation,
  kind: KindName,
): Promise<ReadBody> {
  const type = documentType(request, documentTypesOf(request.path.group))
  const bytes = await request.readBody()
  if (type === 'protobuf') {
    const document = await decodeProtobuf(bytes, kind)
    request.onDocument?.(document)
    if (isLarge(bytes)) await nextTurn()
    return { document }
  }
  const decoded = decodeBody(bytes, type)
  request.onDocument?.(decoded.value)
  const body = withDuplicates(decoded, validation)
  if (isLarge(bytes)) await nextTurn()
  return body
}

/** Reads the input of an action, JSON or YAML. No body is an empty object. @throws ApiError 400, 413, 415 */
export async function readInput(request: ApiRequest): Promise<unknown> {
  const type = documentType(request, documentTypes)
  const bytes = await request.readBody()
  if (bytes.length === 0) return {}
  const { value, duplicates } = decodeBody(bytes, type)
  request.onDocument?.(value)
  warningsOfFields([], { fieldValidation: 'Strict', duplicates: duplicates() })
  return value
}

/** Reads a patch. @throws ApiError 400, 413, 415, 422 */
export async function readPatch(
  request: ApiRequest,
  validation: FieldValidation,
  kind: KindName,
): Promise<ReadBody & (Patch | { type: 'apply'; force: boolean })> {
  const header = headerOf(request.headers, 'content-type')
  const types = patchTypesOf(request.path.group)
  if (!header) throw unsupported('none', types)
  const type = documentType(request, types)
  const force = readForce(request, type === 'apply')
  const bytes = await request.readBody()
  const decoded = type === 'apply' ? decodeConfiguration(bytes) : decodeBody(bytes, 'json')
  request.onDocument?.(decoded.value)
  const body = withDuplicates(decoded, validation)
  if (isLarge(bytes)) await nextTurn()
  if (type === 'apply') return { type, force: force === true, ...body }
  if (type !== 'strategic') return { type, ...body }
  const mergeType = await loadMergeType(kind)
  if (mergeType === undefined) throw unsupported(header, patchTypes)
  return { type, mergeType, ...body }
}

/** Decodes YAML, or JSON, which is what most clients send as YAML: it is faster, and may be larger. */
function decodeConfiguration(bytes: Buffer): DecodedBody {
  const start = bytes.find(byte => !blanks.has(byte))
  if (start !== openBrace) return decodeBody(bytes, 'yaml')
  try {
    return decodeBody(bytes, 'json')
  } catch (notJson) {
    try {
      // YAML's own notation of maps begins with a brace too.
      return decodeBody(bytes, 'yaml')
    } catch {
      throw notJson
    }
  }
}

const openBrace = 0x7b
/** Blank, tab, line feed and carriage return. */
const blanks: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d])

/** Looks for duplicate fields only if somebody is told of them: the text is read a second time. */
function withDuplicates(
  { value, mayHaveNulls, duplicates }: DecodedBody,
  validation: FieldValidation,
): ReadBody {
  return {
    document: value,
    dropsNulls: mayHaveNulls,
    duplicates: validation === 'Ignore' ? [] : duplicates(),
  }
}

/** Returns the meaning of the content type. Without one, or with an empty one, the body is JSON, as in Kubernetes. */
function documentType<T>(request: ApiRequest, types: Readonly<Record<string, T>>): T {
  const header = headerOf(request.headers, 'content-type') || 'application/json'
  const media = parseMediaType(header)
  const meaning = media !== undefined && Object.hasOwn(types, media.type) ? types[media.type] : undefined
  if (media === undefined || meaning === undefined) throw unsupported(header, types)
  const charset = media.parameters.get('charset')?.toLowerCase()
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') {
    throw new ApiError(
      'UnsupportedMediaType',
      `the charset ${quote(charset)} is not supported, only utf-8 is`,
    )
  }
  const encoding = headerOf(request.headers, 'content-encoding')
  if (encoding && encoding.toLowerCase() !== 'identity') {
    throw new ApiError(
      'UnsupportedMediaType',
      `the content encoding ${quote(encoding)} is not supported; send the body without an encoding`,
    )
  }
  return meaning
}

function unsupported(given: string, types: object): ApiError {
  return new ApiError(
    'UnsupportedMediaType',
    `the content type ${quote(given)} is not supported here, only ${Object.keys(types).join(' and ')}`,
  )
}

/** The options of a DELETE, from its body (Kubernetes' DeleteOptions) and its query. */
interface DeleteParameters {
  readonly deletion: Deletion
  /** True to remove an object that cannot be read, and only such a one, without its finalizers. */
  readonly ignoresReadErrors: boolean
  readonly options: WriteOptions
}

/** @throws ApiError 400, 413, 415, and 422 for an unknown propagation policy */
export async function readDeleteParameters(request: ApiRequest): Promise<DeleteParameters> {
  const { query } = request
  const options = readWriteOptions(request)
  const bytes = await request.readBody()
  const body = bytes.length === 0 ? {} : await readOptions(request, bytes)
  if (bytes.length > 0) request.onDocument?.(body)
  // An object of another kind has its version elsewhere, so the deletion would be unconditional.
  if (!isRecord(body) || (body.kind ?? 'DeleteOptions') !== 'DeleteOptions')
    throw badRequest('the body of a DELETE must be a DeleteOptions object')
  const { gracePeriodSeconds = null } = body
  if (gracePeriodSeconds !== null && !Number.isInteger(gracePeriodSeconds))
    throw badRequest('gracePeriodSeconds must be an integer')
  const given = body.preconditions ?? {}
  if (!isRecord(given)) throw badRequest('preconditions must be an object with uid and version')
  const orphan = readBoolean(query, 'orphanDependents') ?? body.orphanDependents
  const propagation = readPropagation(query.get('propagationPolicy') ?? body.propagationPolicy, orphan)
  const texts = (...values: unknown[]) =>
    values
      .filter(value => value !== undefined && value !== null && value !== '')
      .map(value => {
        if (typeof value !== 'string')
          throw badRequest(`a precondition must be a string, not ${quote(value)}`)
        return value
      })
  const uids = new Set(texts(query.get('uid'), given.uid))
  if (uids.size > 1) throw badRequest('query and body have different uids')
  const versions = texts(query.get('version'), given.version)
  const resourceVersions = texts(query.get('resourceVersion'), given.resourceVersion)
  const [uid] = uids
  const ignored = body[ignoreReadErrors] ?? false
  if (typeof ignored !== 'boolean') throw badRequest(`${ignoreReadErrors} must be true or false`)
  return {
    ignoresReadErrors: readBoolean(query, ignoreReadErrors) ?? ignored,
    deletion: {
      ...deletePreconditions({ uid, versions, resourceVersions }),
      propagation,
    },
    options: {
      ...options,
      dryRun: options.dryRun || readDryRun(listOfDryRun(body.dryRun)),
      sentOptions: () => sentDeleteOptionsOf(query, body),
    },
  }
}

/** Returns the options of a DELETE as the client has sent them: in the body, else in the query. */
function sentDeleteOptionsOf(
  query: URLSearchParams,
  body: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const { kind: _kind, apiVersion: _apiVersion, ...sent } = body
  if (Object.keys(sent).length > 0) return sent
  const grace = query.get('gracePeriodSeconds')
  const policy = query.get('propagationPolicy')
  return {
    ...sentOptionsOf(query),
    ...(grace && { gracePeriodSeconds: Number(grace) }),
    ...(policy && { propagationPolicy: policy }),
  }
}

/** Kubernetes' name. */
const ignoreReadErrors = 'ignoreStoreReadErrorWithClusterBreakingPotential'

/** Decodes the options of a DELETE. @throws ApiError 400, 413, 415 */
async function readOptions(request: ApiRequest, bytes: Buffer): Promise<unknown> {
  const type = documentType(request, documentTypesOf(request.path.group))
  if (type !== 'protobuf') return decodeDocument(bytes, type)
  return decodeProtobuf(bytes, { apiVersion: 'v1', kind: 'DeleteOptions' })
}

/** Older Kubernetes clients send `orphanDependents` instead of a policy. @throws ApiError 400, 422 */
function readPropagation(policy: unknown, orphanDependents: unknown): PropagationPolicy | undefined {
  const asked = policy ?? undefined
  if (orphanDependents !== undefined && orphanDependents !== null) {
    if (typeof orphanDependents !== 'boolean') throw badRequest('orphanDependents must be true or false')
    if (asked !== undefined) {
      const message = 'cannot be given together with orphanDependents'
      throw invalidOptions('DELETE', { reason: 'FieldValueInvalid', field: 'propagationPolicy', message })
    }
    return orphanDependents ? 'Orphan' : 'Background'
  }
  const known = propagationPolicies.find(name => name === asked)
  if (known === undefined && asked !== undefined) {
    const message = `${quote(asked)} is not one of ${propagationPolicies.join(', ')}`
    throw invalidOptions('DELETE', { reason: 'FieldValueNotSupported', field: 'propagationPolicy', message })
  }
  return known
}
