import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError, defineModel, isApiError } from '@setpoint/controller-runtime/api'
import { type ReviewContent, ServedModel } from '../model/index.ts'
import type { BearerTokens } from '../security/index.ts'
import { recordOf, textOf, textsOf } from './fields.ts'

const group = 'authentication.k8s.io'
const text = { type: 'string' } as const
const texts = { type: 'array', nullable: true, items: text } as const

const userSchema = {
  type: 'object',
  properties: {
    username: text,
    uid: text,
    groups: texts,
    extra: { type: 'object', nullable: true, additionalProperties: texts },
  },
} as const

const selfReview = defineModel({
  group,
  version: 'v1',
  kind: 'SelfSubjectReview',
  singular: 'selfsubjectreview',
  plural: 'selfsubjectreviews',
  schema: {
    spec: { type: 'object', properties: {} },
    status: { type: 'object', properties: { userInfo: userSchema } },
  },
})

const tokenReview = defineModel({
  group,
  version: 'v1',
  kind: 'TokenReview',
  singular: 'tokenreview',
  plural: 'tokenreviews',
  sensitive: true,
  schema: {
    spec: {
      type: 'object',
      properties: {
        token: { ...text, description: 'The token to check.' },
        audiences: { ...texts, description: 'The token must be for one of these. Default: this API.' },
      },
    },
    status: {
      type: 'object',
      properties: { authenticated: { type: 'boolean' }, user: userSchema, audiences: texts, error: text },
    },
  },
})

/** The reviews of `authentication.k8s.io/v1`: who the caller is, and whose a token is. */
export function authenticationReviews(tokens: BearerTokens): ServedModel[] {
  return [
    ServedModel.builtIn(selfReview, {
      review: {
        respond: (_content, { user }) => ({
          metadata: { creationTimestamp: new Date().toISOString() },
          status: { userInfo: userInfoOf(user) },
        }),
      },
    }),
    ServedModel.builtIn(tokenReview, { review: { respond: ({ spec }) => review(tokens, spec) } }),
  ]
}

/** @throws ApiError 400 without a token; 503 if it cannot be checked */
async function review(tokens: BearerTokens, spec: unknown): Promise<ReviewContent> {
  const { token, audiences } = recordOf(spec)
  if (textOf(token) === '') throw new ApiError('BadRequest', 'spec.token is required for a TokenReview')
  const asked = textsOf(audiences)
  try {
    const found = await tokens.authenticate(textOf(token), asked.length === 0 ? undefined : asked)
    const user = userInfoOf(found.identity.user)
    return { spec, status: { authenticated: true, user, audiences: found.audiences } }
  } catch (error) {
    if (!isApiError(error, 'Unauthorized')) throw error
    return { spec, status: { authenticated: false, user: {}, error: error.message } }
  }
}

function userInfoOf({ name, uid, groups, extra }: UserInfo): object {
  return { username: name, uid, groups, extra }
}
