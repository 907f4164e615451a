import { isRecord } from '@setpoint/controller-runtime/api'
import { decodeDocument, type JsonObject, type ServedVersion } from '../../model/index.ts'
import { WebhookCallError } from '../webhooks/index.ts'
import { admissionRequestOf } from './admission-request.ts'
import type { AdmissionAttributes } from './attributes.ts'

const group = 'admission.k8s.io'

/** What a webhook says of a write. */
export interface ReviewResponse {
  readonly isAllowed: boolean
  /** The status of a denial, if it gives one. */
  readonly status: JsonObject | undefined
  /** The operations of a JSON patch. Empty if nothing is to be changed. */
  readonly patch: readonly unknown[]
  readonly warnings: readonly string[]
  readonly auditAnnotations: Readonly<Record<string, string>>
}

/** Returns the AdmissionReview that a webhook gets. @param reviewVersion v1 or v1beta1, which have the same form */
export async function reviewOf(
  attributes: AdmissionAttributes,
  version: ServedVersion,
  reviewVersion: string,
  uid: string,
): Promise<JsonObject> {
  const { object = null, old = null } = await attributes.in(version)
  const { userInfo, dryRun, options, ...subject } = admissionRequestOf(attributes, version)
  return {
    kind: 'AdmissionReview',
    apiVersion: `${group}/${reviewVersion}`,
    request: { uid, ...subject, userInfo, object, oldObject: old, dryRun, options },
  }
}

/**
 * Reads the AdmissionReview of a response, with the checks of Kubernetes.
 * @throws WebhookCallError if it is not a response to the request
 */
export function readResponse(
  document: unknown,
  reviewVersion: string,
  uid: string,
  isMutating: boolean,
): ReviewResponse {
  const { apiVersion, kind, response } = isRecord(document) ? document : refuse('it is not an object')
  if (!isRecord(response)) return refuse('webhook response was absent')
  const isStrict = reviewVersion === 'v1'
  if (isStrict && response.uid !== uid)
    refuse(`expected response.uid=${JSON.stringify(uid)}, got ${shown(response.uid)}`)
  if (isStrict && (apiVersion !== `${group}/v1` || kind !== 'AdmissionReview'))
    refuse(
      `expected webhook response of ${group}/v1, Kind=AdmissionReview, got ${text(apiVersion)}, Kind=${text(kind)}`,
    )
  return {
    isAllowed: optional(response.allowed, 'allowed', isBoolean) ?? false,
    status: optional(response.status, 'status', isRecord),
    patch: patchOf(response, isStrict, isMutating),
    warnings: optional(response.warnings, 'warnings', isTexts) ?? [],
    auditAnnotations: optional(response.auditAnnotations, 'auditAnnotations', isTextMap) ?? {},
  }
}

function patchOf(response: JsonObject, isStrict: boolean, isMutating: boolean): readonly unknown[] {
  const patch = optional(response.patch, 'patch', isText) ?? ''
  const type = optional(response.patchType, 'patchType', isText)
  if (!isMutating) {
    if (isStrict && patch !== '') refuse('validating webhook may not return response.patch')
    if (isStrict && type !== undefined) refuse('validating webhook may not return response.patchType')
    return []
  }
  if (isStrict && patch !== '' && type === undefined)
    refuse('webhook returned response.patch but not response.patchType')
  if (isStrict && patch === '' && type !== undefined)
    refuse('webhook returned response.patchType but not response.patch')
  if (patch === '') return []
  if (isStrict && type !== 'JSONPatch')
    refuse(`it has the patchType ${shown(type)}, only JSONPatch is supported`)
  return operationsOf(patch)
}

function operationsOf(patch: string): readonly unknown[] {
  try {
    const operations = decodeDocument(Buffer.from(patch, 'base64'), 'json')
    if (Array.isArray(operations) && operations.every(isRecord)) return operations
  } catch {
    // Refused like a document of another form.
  }
  throw new WebhookCallError(
    'received undecodable patch in webhook response: it is not a list of operations in base64',
  )
}

const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'
const isText = (value: unknown): value is string => typeof value === 'string'
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText)
const isTextMap = (value: unknown): value is Record<string, string> =>
  isRecord(value) && Object.values(value).every(isText)

function optional<T>(value: unknown, field: string, is: (value: unknown) => value is T): T | undefined {
  if (value === undefined || value === null) return undefined
  return is(value) ? value : refuse(`it has another type of ${field}`)
}

function shown(value: unknown): string {
  return JSON.stringify(text(value))
}

function text(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 100) : ''
}

function refuse(problem: string): never {
  throw new WebhookCallError(`received invalid webhook response: ${problem}`)
}
