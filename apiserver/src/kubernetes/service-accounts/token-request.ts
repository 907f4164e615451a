import { ApiError, defineModel, isRecord, objectKey } from '@setpoint/controller-runtime/api'
import {
  echoName,
  type ModelRegistry,
  quote,
  type ReviewAnswer,
  type ReviewContent,
  type ReviewRequest,
  ServedModel,
} from '../../model/index.ts'
import type { Registry } from '../../registry/index.ts'
import { recordOf, textsOf } from '../fields.ts'
import type { BoundObject } from './bound-objects.ts'
import { type ServiceAccountTokens, serviceAccountIssuer } from './service-account-tokens.ts'
import { tokenLife } from './token-life.ts'

const text = { type: 'string' } as const
const { defaultSeconds, shortestSeconds, longestSeconds } = tokenLife

const model = defineModel({
  group: 'authentication.k8s.io',
  version: 'v1',
  kind: 'TokenRequest',
  singular: 'tokenrequest',
  plural: 'tokenrequests',
  scope: 'Namespaced',
  sensitive: true,
  schema: {
    spec: {
      type: 'object',
      properties: {
        audiences: {
          type: 'array',
          nullable: true,
          maxItems: 16,
          items: { ...text, minLength: 1, maxLength: 256 },
          description: 'Whom the token is for. Default: this API.',
        },
        expirationSeconds: {
          type: 'integer',
          nullable: true,
          description: `Life of the token; default ${defaultSeconds}, at least ${shortestSeconds}, at most ${longestSeconds}.`,
        },
        boundObjectRef: {
          type: 'object',
          nullable: true,
          description: 'A Secret of the namespace. The token is invalid as soon as it is gone.',
          properties: { kind: text, apiVersion: text, name: text, uid: text },
        },
      },
    },
    status: {
      type: 'object',
      properties: { token: text, expirationTimestamp: { ...text, nullable: true, format: 'date-time' } },
    },
  },
})

interface Parts {
  readonly tokens: ServiceAccountTokens
  readonly models: ModelRegistry
  readonly registry: Pick<Registry, 'readLive'>
}

/** The subresource `serviceaccounts/<name>/token`, as in Kubernetes. */
export function tokenRequest(parts: Parts): ServedModel {
  return ServedModel.builtIn(model, {
    review: {
      parent: { group: '', version: 'v1', plural: 'serviceaccounts', subresource: 'token' },
      respond: (content, request) => respond(parts, content, request),
    },
  })
}

/** @throws ApiError 400, 404, 409, 422, 503 */
async function respond(
  parts: Parts,
  { spec }: ReviewContent,
  { namespace = '', name = '', metadata }: ReviewRequest,
): Promise<ReviewAnswer> {
  const given = recordOf(spec)
  if (metadata.name !== undefined && metadata.name !== name)
    throw invalid(name, 'metadata.name', 'must match the service account name if specified')
  const account = await find(parts, { plural: 'serviceaccounts', namespace, name })
  if (metadata.uid !== undefined && metadata.uid !== account.uid)
    throw new ApiError(
      'Conflict',
      `the UID in the TokenRequest is not that of the ServiceAccount ${quote(name)}`,
      { group: model.group, kind: model.kind, name },
    )
  const secret = await secretOf(parts, namespace, given.boundObjectRef)
  const asked = typeof given.expirationSeconds === 'number' ? given.expirationSeconds : defaultSeconds
  if (asked < shortestSeconds) throw tooShort(asked)
  const seconds = Math.min(asked, longestSeconds)
  const audiences = textsOf(given.audiences)
  if (audiences.length === 0) audiences.push(serviceAccountIssuer)
  const { token, expiresAt } = await parts.tokens.issue({
    account,
    secret,
    audiences,
    lifeSeconds: seconds,
  })
  return {
    metadata: { uid: account.uid, creationTimestamp: toSeconds(expiresAt.getTime() - seconds * 1000) },
    spec: { audiences, expirationSeconds: seconds, boundObjectRef: given.boundObjectRef ?? null },
    status: { token, expirationTimestamp: toSeconds(expiresAt.getTime()) },
    ...(seconds < asked && {
      warnings: [`requested expiration of ${asked} seconds shortened to ${seconds} seconds`],
    }),
  }
}

/** As in Kubernetes (`ValidateTokenRequest`). */
function tooShort(seconds: number): ApiError {
  const why = 'may not specify a duration less than 10 minutes'
  return invalid('', 'spec.expirationSeconds', `Invalid value: ${seconds}: ${why}`)
}

function invalid(given: string, field: string, message: string): ApiError {
  const { group, kind } = model
  const name = echoName(given)
  return new ApiError(
    'Invalid',
    `${kind}.${group} ${JSON.stringify(name)} is invalid: ${field}: ${message}`,
    { group, kind, ...(name !== '' && { name }), causes: [{ reason: 'FieldValueInvalid', field, message }] },
  )
}

/** Returns a time as in Kubernetes' objects, without fractional digits. */
function toSeconds(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`
}

async function secretOf(
  parts: Parts,
  namespace: string,
  reference: unknown,
): Promise<BoundObject | undefined> {
  if (!isRecord(reference)) return undefined
  const { kind, apiVersion, name, uid } = reference
  if (kind !== 'Secret' || apiVersion !== 'v1')
    throw new ApiError(
      'BadRequest',
      `a token can be bound to a Secret of v1, not to ${quote(kind)} of ${quote(apiVersion)}`,
    )
  if (typeof name !== 'string' || name === '') throw new ApiError('BadRequest', 'boundObjectRef needs a name')
  const secret = await find(parts, { plural: 'secrets', namespace, name })
  if (typeof uid === 'string' && uid !== '' && uid !== secret.uid)
    throw new ApiError('Conflict', `the UID in boundObjectRef is not that of the Secret ${quote(name)}`)
  return secret
}

/** @throws ApiError 404, 409, 503 */
async function find(
  { models, registry }: Parts,
  { plural, namespace, name }: Omit<BoundObject, 'uid'>,
): Promise<BoundObject> {
  const served = models.find('', 'v1', plural)
  const live = served && (await registry.readLive(served, objectKey({ namespace, name })))
  const shown = echoName(name)
  if (live === undefined)
    throw new ApiError('NotFound', `${plural} ${JSON.stringify(shown)} not found`, {
      kind: plural,
      name: shown,
    })
  const { uid, deletionTimestamp } = live.stored.object.metadata
  if (deletionTimestamp !== undefined)
    throw new ApiError('Conflict', `${plural} ${JSON.stringify(shown)} is being deleted`, {
      kind: plural,
      name: shown,
    })
  return { plural, namespace, name, uid }
}
