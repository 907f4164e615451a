import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError, defineModel, isRecord } from '@setpoint/controller-runtime/api'
import { type Review, type ReviewContent, ServedModel } from '../model/index.ts'
import type { Authorizer, PolicyRule, Target } from '../security/index.ts'
import { recordOf, textOf } from './fields.ts'

const group = 'authorization.k8s.io'
const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const

const resourceAttributes = {
  type: 'object',
  description: 'A request for objects.',
  properties: {
    namespace: { ...text, description: 'Empty for cluster-scoped kinds, and across all namespaces.' },
    verb: {
      ...text,
      description: 'get, list, watch, create, update, patch, delete, deletecollection, or *.',
    },
    group: { ...text, description: 'The API group, or *.' },
    version: text,
    resource: { ...text, description: 'The plural, or *.' },
    subresource: text,
    name: { ...text, description: 'Empty for all names.' },
    // Roles do not depend on selectors.
    fieldSelector: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    labelSelector: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  },
} as const

const nonResourceAttributes = {
  type: 'object',
  description: 'A request for a path that is not about objects.',
  properties: { path: text, verb: { ...text, description: 'The method in lower case.' } },
} as const

const decision = {
  type: 'object',
  properties: {
    allowed: { type: 'boolean', description: 'Whether the request would be allowed.' },
    reason: { ...text, description: 'Why.' },
  },
} as const

const questions = { resourceAttributes, nonResourceAttributes } as const

const subject = {
  user: { ...text, description: 'The name of the user.' },
  groups: { ...texts, description: 'The groups of the user.' },
  uid: text,
  extra: { type: 'object', additionalProperties: texts },
} as const

const subjectQuestion = {
  spec: { type: 'object', properties: { ...questions, ...subject } },
  status: decision,
} as const

/** A kind of review: answers posts, stores nothing. */
function kindOf(
  kind: string,
  schema: Parameters<typeof defineModel>[0]['schema'],
  scope: 'Cluster' | 'Namespaced',
) {
  const singular = kind.toLowerCase()
  const plural = `${singular}s`
  return defineModel({ group, version: 'v1', kind, singular, plural, scope, schema })
}

const selfReview = kindOf(
  'SelfSubjectAccessReview',
  { spec: { type: 'object', properties: questions }, status: decision },
  'Cluster',
)
const subjectReview = kindOf('SubjectAccessReview', subjectQuestion, 'Cluster')
const localReview = kindOf('LocalSubjectAccessReview', subjectQuestion, 'Namespaced')
const rulesReview = kindOf(
  'SelfSubjectRulesReview',
  {
    spec: { type: 'object', properties: { namespace: text } },
    status: {
      type: 'object',
      properties: {
        resourceRules: {
          type: 'array',
          items: {
            type: 'object',
            properties: { verbs: texts, apiGroups: texts, resources: texts, resourceNames: texts },
          },
        },
        nonResourceRules: {
          type: 'array',
          items: { type: 'object', properties: { verbs: texts, nonResourceURLs: texts } },
        },
        incomplete: { type: 'boolean' },
        evaluationError: text,
      },
    },
  },
  'Cluster',
)

/** The reviews of `authorization.k8s.io/v1`: who may do what, as Kubernetes' clients ask for it. */
export function accessReviews(authorizer: Authorizer): ServedModel[] {
  const review = (model: typeof selfReview, respond: Review['respond']) =>
    ServedModel.builtIn(model, { review: { respond } })
  return [
    review(selfReview, (content, { user }) => decide(authorizer, content, user)),
    review(subjectReview, content => decide(authorizer, content, subjectOf('SubjectAccessReview', content))),
    review(localReview, (content, { namespace }) => {
      checkLocal(content, namespace)
      return decide(authorizer, content, subjectOf('LocalSubjectAccessReview', content))
    }),
    review(rulesReview, (content, { user }) => {
      const { namespace } = recordOf(content.spec)
      if (typeof namespace !== 'string' || namespace === '')
        throw new ApiError('BadRequest', 'no namespace on request')
      const { rules, problem } = authorizer.rulesOf(user, namespace)
      return {
        spec: content.spec,
        status: {
          resourceRules: rules.filter(isAboutObjects),
          nonResourceRules: rules.filter(rule => !isAboutObjects(rule)),
          incomplete: problem !== undefined,
          ...(problem !== undefined && { evaluationError: problem }),
        },
      }
    }),
  ]
}

function isAboutObjects({ nonResourceURLs = [] }: PolicyRule): boolean {
  return nonResourceURLs.length === 0
}

function decide(authorizer: Authorizer, { spec }: ReviewContent, user: UserInfo): ReviewContent {
  const { verb, target } = questionOf(spec)
  const grant = authorizer.grantOf(user, verb, target)
  return { spec, status: grant === undefined ? { allowed: false } : { allowed: true, reason: grant.reason } }
}

/** @throws ApiError 422 */
function questionOf(spec: unknown): { readonly verb: string; readonly target: Target } {
  const { resourceAttributes: resource, nonResourceAttributes: path } = recordOf(spec)
  if (isRecord(resource) === isRecord(path))
    throw invalid('spec', 'exactly one of nonResourceAttributes or resourceAttributes must be specified')
  if (isRecord(path)) return { verb: textOf(path.verb), target: textOf(path.path) }
  const { namespace, verb, group = '', resource: plural = '', subresource, name } = recordOf(resource)
  const given = (value: unknown) => textOf(value) || undefined
  return {
    verb: textOf(verb),
    target: {
      group: textOf(group),
      plural: textOf(plural),
      namespace: given(namespace),
      name: given(name),
      subresource: given(subresource),
    },
  }
}

/** @throws ApiError 422 */
function subjectOf(kind: string, { spec }: ReviewContent): UserInfo {
  const { user, groups } = recordOf(spec)
  const names = Array.isArray(groups) ? groups.map(textOf) : []
  if (textOf(user) === '' && names.length === 0)
    throw invalid('spec.user', `at least one of user or group of a ${kind} must be specified`)
  return { name: textOf(user), groups: names }
}

/** @throws ApiError 422 */
function checkLocal({ spec }: ReviewContent, namespace: string | undefined): void {
  const { resourceAttributes: resource, nonResourceAttributes: path } = recordOf(spec)
  if (isRecord(path)) throw invalid('spec.nonResourceAttributes', 'disallowed on this kind of request')
  if (recordOf(resource).namespace !== namespace)
    throw invalid('spec.resourceAttributes.namespace', 'must match the namespace in the path')
}

function invalid(field: string, message: string): ApiError {
  return new ApiError('Invalid', `the review is invalid: ${field}: ${message}`, {
    causes: [{ reason: 'FieldValueInvalid', message, field }],
  })
}
