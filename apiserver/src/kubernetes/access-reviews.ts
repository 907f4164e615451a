import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError, defineModel, isRecord } from '@setpoint/controller-runtime/api'
import { type Review, type ReviewContent, type ReviewRequest, ServedModel } from '../model/index.ts'
import type { Authorizer, PolicyRule, Target } from '../security/index.ts'
import { recordOf, textOf, textsOf } from './fields.ts'

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

/** A kind of review. Its objects are not stored. */
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
    review(selfReview, (content, { user, metadata }) => {
      check([...problemsOfQuestion(content), ...problemsOfMetadata(metadata)])
      return decide(authorizer, content, user)
    }),
    review(subjectReview, (content, { metadata }) => {
      check([...problemsOfQuestion(content), ...problemsOfSubject(content), ...problemsOfMetadata(metadata)])
      return decide(authorizer, content, subjectOf(content))
    }),
    review(localReview, (content, { namespace, metadata }) => {
      check([
        ...problemsOfQuestion(content),
        ...problemsOfSubject(content),
        ...problemsOfMetadata(metadata),
        ...problemsOfPlace(content, namespace),
      ])
      return decide(authorizer, content, subjectOf(content))
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
          evaluationError: problem,
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

/** The review is valid. */
function questionOf(spec: unknown): { readonly verb: string; readonly target: Target } {
  const { resourceAttributes: resource, nonResourceAttributes: path } = recordOf(spec)
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

function subjectOf({ spec }: ReviewContent): UserInfo {
  const { user, groups } = recordOf(spec)
  return { name: textOf(user), groups: textsOf(groups) }
}

// The violations that Kubernetes finds in a review.

interface Problem {
  readonly field: string
  readonly message: string
}

function problemsOfQuestion({ spec }: ReviewContent): Problem[] {
  const { resourceAttributes: resource, nonResourceAttributes: path } = recordOf(spec)
  if (isRecord(resource) !== isRecord(path)) return []
  return isRecord(path)
    ? [
        {
          field: 'spec.nonResourceAttributes',
          message: 'cannot be specified in combination with resourceAttributes',
        },
      ]
    : [
        {
          field: 'spec.resourceAttributes',
          message: 'exactly one of nonResourceAttributes or resourceAttributes must be specified',
        },
      ]
}

function problemsOfSubject({ spec }: ReviewContent): Problem[] {
  const { user, groups } = recordOf(spec)
  if (textOf(user) !== '' || textsOf(groups).length > 0) return []
  return [{ field: 'spec.user', message: 'at least one of user or group must be specified' }]
}

/** Kubernetes ignores these fields. The namespace is that of the path. */
function problemsOfMetadata({
  namespace: _namespace,
  uid: _uid,
  managedFields: _managedFields,
  ...others
}: ReviewRequest['metadata']): Problem[] {
  return Object.keys(others).length === 0 ? [] : [{ field: 'metadata', message: 'must be empty' }]
}

function problemsOfPlace({ spec }: ReviewContent, namespace: string | undefined): Problem[] {
  const { resourceAttributes: resource, nonResourceAttributes: path } = recordOf(spec)
  const problems: Problem[] = []
  if (isRecord(resource) && resource.namespace !== namespace)
    problems.push({
      field: 'spec.resourceAttributes.namespace',
      message: 'must match the namespace in the path',
    })
  if (isRecord(path))
    problems.push({ field: 'spec.nonResourceAttributes', message: 'disallowed on this kind of request' })
  return problems
}

/** @throws ApiError 422 if there are violations */
function check(problems: readonly Problem[]): void {
  if (problems.length === 0) return
  const shown = problems.map(({ field, message }) => `${field}: ${message}`).join('; ')
  const causes = problems.map(problem => ({ reason: 'FieldValueInvalid', ...problem }))
  // As in Kubernetes, the details name neither kind nor object.
  throw new ApiError('Invalid', `the review is invalid: ${shown}`, { group, causes })
}
