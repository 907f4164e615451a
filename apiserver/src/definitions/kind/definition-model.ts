import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'

const texts = { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'atomic' } as const

const names = {
  type: 'object',
  required: ['plural', 'kind'],
  properties: {
    plural: { type: 'string', description: 'The name of the kind in paths, in lower case: widgets.' },
    singular: { type: 'string', description: 'Default: the kind in lower case.' },
    shortNames: { ...texts, description: 'Short names for command lines.' },
    kind: { type: 'string', description: 'The kind of objects: Widget.' },
    listKind: { type: 'string', description: 'The kind of lists. Default: the kind with List at its end.' },
    categories: { ...texts, description: 'Groups of kinds that the kind belongs to, for example all.' },
  },
} as const

const scale = {
  type: 'object',
  required: ['specReplicasPath', 'statusReplicasPath'],
  description: 'Serves the subresource scale.',
  properties: {
    specReplicasPath: { type: 'string', description: 'JSONPath of the wanted replicas, below .spec.' },
    statusReplicasPath: { type: 'string', description: 'JSONPath of the present replicas, below .status.' },
    labelSelectorPath: { type: 'string', description: 'JSONPath of a selector, below .spec or .status.' },
  },
} as const

const column = {
  type: 'object',
  required: ['name', 'type', 'jsonPath'],
  properties: {
    name: { type: 'string', description: 'The heading.' },
    type: { type: 'string', description: 'integer, number, string, boolean or date.' },
    format: { type: 'string', description: 'A format of OpenAPI, for example int32.' },
    description: { type: 'string', description: 'What the column says.' },
    priority: { type: 'integer', format: 'int32', description: 'Above 0: shown in wide tables only.' },
    jsonPath: { type: 'string', description: 'JSONPath of the value.' },
  },
} as const

const version = {
  type: 'object',
  required: ['name', 'served', 'storage'],
  properties: {
    name: { type: 'string', description: 'The name of the version in paths: v1.' },
    served: { type: 'boolean', description: 'Whether clients can use the version.' },
    storage: {
      type: 'boolean',
      description: 'True for the version that objects are stored in, and no other.',
    },
    deprecated: { type: 'boolean', description: 'Whether responses to requests have a warning.' },
    deprecationWarning: { type: 'string', description: 'The text of the warning.' },
    schema: {
      type: 'object',
      description: 'What objects of the version look like.',
      properties: {
        openAPIV3Schema: {
          type: 'object',
          'x-kubernetes-preserve-unknown-fields': true,
          description: 'A structural schema.',
        },
      },
    },
    subresources: {
      type: 'object',
      description: 'The subresources that are served.',
      properties: {
        status: { type: 'object', description: 'Serves the subresource status.' },
        scale,
      },
    },
    additionalPrinterColumns: {
      type: 'array',
      'x-kubernetes-list-type': 'atomic',
      description: 'The columns of tables after the name. Default: the age.',
      items: column,
    },
    selectableFields: {
      type: 'array',
      'x-kubernetes-list-type': 'atomic',
      description: 'The fields that field selectors and sorts can use, 8 at most.',
      items: {
        type: 'object',
        required: ['jsonPath'],
        properties: { jsonPath: { type: 'string', description: 'JSONPath of the field: .spec.color.' } },
      },
    },
  },
} as const

const conversion = {
  type: 'object',
  required: ['strategy'],
  description: 'How objects are converted between versions.',
  properties: {
    strategy: { type: 'string', description: 'None, which changes the apiVersion only, or Webhook.' },
    webhook: {
      type: 'object',
      description: 'Who converts, with the strategy Webhook.',
      properties: {
        clientConfig: {
          type: 'object',
          description: 'Either a URL or a service.',
          properties: {
            url: { type: 'string', description: 'An https URL.' },
            service: {
              type: 'object',
              required: ['namespace', 'name'],
              properties: {
                namespace: { type: 'string', description: 'The namespace of the service.' },
                name: { type: 'string', description: 'The name of the service.' },
                path: { type: 'string', description: 'The path of requests.' },
                port: { type: 'integer', format: 'int32', description: 'Default: 443.' },
              },
            },
            caBundle: {
              type: 'string',
              format: 'byte',
              description: 'Certificates in PEM that the certificate of the webhook is checked with.',
            },
          },
        },
        conversionReviewVersions: {
          ...texts,
          description: 'The versions of ConversionReview that the webhook takes, the best first.',
        },
      },
    },
  },
} as const

/** The kind `CustomResourceDefinition` of `apiextensions.k8s.io/v1`. Its rules do what a schema cannot say. */
export const definitionModel = defineBuiltInModel({
  group: 'apiextensions.k8s.io',
  version: 'v1',
  kind: 'CustomResourceDefinition',
  singular: 'customresourcedefinition',
  plural: 'customresourcedefinitions',
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  // Its rules check more, and report it with what else is wrong.
  names: 'path-segment',
  schema: {
    spec: {
      type: 'object',
      required: ['group', 'names', 'scope'],
      description: 'The kind.',
      properties: {
        group: { type: 'string', description: 'The group of the kind, with a dot: example.com.' },
        names,
        scope: { type: 'string', description: 'Cluster or Namespaced.' },
        versions: {
          type: 'array',
          'x-kubernetes-list-type': 'atomic',
          description: 'The versions of the kind.',
          items: version,
        },
        conversion,
        preserveUnknownFields: {
          type: 'boolean',
          description: 'Must be false. Use x-kubernetes-preserve-unknown-fields in a schema.',
        },
      },
    },
    status: {
      type: 'object',
      description: 'What the server makes of the definition.',
      properties: {
        conditions: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['type'],
          description: 'NamesAccepted, Established and others.',
          items: {
            type: 'object',
            required: ['type', 'status'],
            properties: {
              type: { type: 'string', description: 'The type of the condition.' },
              status: { type: 'string', description: 'True, False or Unknown.' },
              lastTransitionTime: {
                type: 'string',
                format: 'date-time',
                description: 'When the status changed last.',
              },
              reason: { type: 'string', description: 'The reason: a stable word in CamelCase.' },
              message: { type: 'string', description: 'The reason, in words.' },
            },
          },
        },
        acceptedNames: { ...names, description: 'The names that the kind is served by.' },
        storedVersions: {
          ...texts,
          description: 'All versions that objects have been stored in and that may be in the store.',
        },
      },
    },
  },
  subresources: { status: true },
})
