import { defineBuiltInModel } from '../api/built-in-model.ts'
import { selectableField } from '../api/index-spec.ts'
import type { ObjectOf } from '../api/model.ts'

/** The kind `Namespace` of `v1`, as in Kubernetes: what the names of objects are unique within. */
export const Namespace = defineBuiltInModel({
  group: '',
  version: 'v1',
  kind: 'Namespace',
  singular: 'namespace',
  plural: 'namespaces',
  shortNames: ['ns'],
  schema: {
    spec: {
      type: 'object',
      properties: {
        finalizers: {
          type: 'array',
          items: { type: 'string' },
          description:
            'What keeps a deleting namespace. Once it exists, changed through the subresource finalize only.',
        },
      },
    },
    status: {
      type: 'object',
      properties: {
        phase: {
          type: 'string',
          enum: ['Active', 'Terminating'],
          description: 'Terminating while the namespace and its objects are being deleted.',
        },
        conditions: {
          type: 'array',
          description: 'What keeps a namespace that is being deleted.',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['type'],
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
              message: { type: 'string', description: 'What keeps the namespace, in words.' },
            },
          },
        },
      },
    },
  },
  subresources: { status: true },
  indexes: [selectableField({ name: 'status.phase', indexFunc: ({ status }) => status?.phase })],
  printerColumns: [
    { name: 'Status', type: 'string', jsonPath: '.status.phase' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})

/** What the names of objects are unique within. */
export type Namespace = ObjectOf<typeof Namespace>
