/** Parts of schemas that the kinds of `admissionregistration.k8s.io` share. */

const text = { type: 'string' } as const
const texts = { type: 'array', items: text, 'x-kubernetes-list-type': 'atomic' } as const

export const labelSelector = {
  type: 'object',
  default: {},
  'x-kubernetes-map-type': 'atomic',
  properties: {
    matchLabels: { type: 'object', additionalProperties: text },
    matchExpressions: {
      type: 'array',
      'x-kubernetes-list-type': 'atomic',
      items: {
        type: 'object',
        properties: { key: text, operator: text, values: texts },
      },
    },
  },
} as const

const ruleProperties = {
  apiGroups: { ...texts, description: 'API groups; the empty one is the core group, * is all.' },
  apiVersions: { ...texts, description: 'API versions, or * for all.' },
  resources: {
    ...texts,
    description:
      'Plurals, <plural>/<subresource>, <plural>/* for all subresources, */<subresource>, * for all resources without subresources, or */*.',
  },
  scope: { ...text, default: '*', description: 'Cluster, Namespaced, or * for both.' },
  operations: { ...texts, description: 'CREATE, UPDATE, DELETE, CONNECT, or * for all.' },
} as const

/** The rules of webhooks. */
export const rules = {
  type: 'array',
  'x-kubernetes-list-type': 'atomic',
  description: 'The writes that the webhook is called for: those that one of the rules matches.',
  items: { type: 'object', properties: ruleProperties },
} as const

const namedRules = {
  type: 'array',
  'x-kubernetes-list-type': 'atomic',
  items: {
    type: 'object',
    'x-kubernetes-map-type': 'atomic',
    properties: {
      resourceNames: { ...texts, description: 'Names of objects. Without any, all names.' },
      ...ruleProperties,
    },
  },
} as const

const matchPolicy = {
  ...text,
  default: 'Equivalent',
  description:
    'Exact: only requests to the versions in the rules. Equivalent: also those to other versions of the same kind.',
} as const

export const namespaceSelector = {
  ...labelSelector,
  description:
    'Selects by the labels of the namespace, or of the object itself if it is a namespace. Cluster-scoped objects always match.',
} as const

export const objectSelector = {
  ...labelSelector,
  description: 'Selects by the labels of the object, before or after the write.',
} as const

/** What policies and their bindings match. */
export const matchResources = {
  type: 'object',
  'x-kubernetes-map-type': 'atomic',
  properties: {
    resourceRules: {
      ...namedRules,
      description: 'The writes that match: those that one of the rules matches.',
    },
    excludeResourceRules: { ...namedRules, description: 'The writes that do not match all the same.' },
    matchPolicy,
    namespaceSelector,
    objectSelector,
  },
} as const

export const matchConditions = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  description: 'CEL expressions that must all be true. At most 64.',
  items: {
    type: 'object',
    properties: { name: { ...text, default: '' }, expression: text },
  },
} as const

export const failurePolicy = {
  ...text,
  default: 'Fail',
  description: 'What a failure means: Fail refuses the write, Ignore lets it pass.',
} as const

export const webhookFields = {
  name: { ...text, default: '', description: 'A fully qualified name, such as limits.example.com.' },
  clientConfig: {
    type: 'object',
    description: 'Where the webhook is: exactly one of url and service.',
    properties: {
      url: { ...text, description: 'https://host[:port][/path]' },
      service: {
        type: 'object',
        description: 'A service that the server knows by the flag --webhook-service.',
        properties: {
          namespace: text,
          name: text,
          path: text,
          port: { type: 'integer', format: 'int32', default: 443 },
        },
      },
      caBundle: {
        ...text,
        format: 'byte',
        description:
          'PEM certificates that the certificate of the webhook is verified by. Default: those of the system.',
      },
    },
  },
  rules,
  failurePolicy,
  matchPolicy,
  namespaceSelector,
  objectSelector,
  sideEffects: {
    ...text,
    description: 'None, or NoneOnDryRun. Dry runs of writes call webhooks with one of these only.',
  },
  timeoutSeconds: {
    type: 'integer',
    format: 'int32',
    default: 10,
    description: 'Seconds for the response of the webhook, from 1 to 30.',
  },
  admissionReviewVersions: {
    ...texts,
    description:
      'The versions of AdmissionReview that the webhook understands; the first that the server knows is sent: v1 or v1beta1.',
  },
  matchConditions,
} as const
