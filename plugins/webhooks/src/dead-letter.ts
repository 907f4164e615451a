import { conditionsSchema, defineModel, type ObjectOf, singleValueIndex } from '@setpoint/controller-runtime'
import { group } from './subscription.ts'

const immutable = [{ rule: 'self == oldSelf', message: 'is immutable' }] as const

/**
 * A delivery that failed `maxAttempts` times. It belongs to its subscription and is deleted with it. It is retried while
 * `spec.retry` is true, and deleted once it is delivered. It is sensitive because its payload can be an object of any kind.
 */
export const DeadLetter = defineModel({
  group,
  version: 'v1alpha1',
  kind: 'DeadLetter',
  singular: 'deadletter',
  plural: 'deadletters',
  sensitive: true,
  schema: {
    spec: {
      type: 'object',
      required: ['subscription', 'id', 'object', 'version', 'attempts', 'reason'],
      properties: {
        subscription: { type: 'string', 'x-kubernetes-validations': immutable },
        id: { type: 'string', description: 'The webhook-id.', 'x-kubernetes-validations': immutable },
        object: {
          type: 'string',
          description:
            'The kind and name of the changed object, with its namespace: `Probe website`, or `Cart shop/big`.',
          'x-kubernetes-validations': immutable,
        },
        version: {
          type: 'string',
          description: 'The version of the change.',
          'x-kubernetes-validations': immutable,
        },
        attempts: {
          type: 'integer',
          description: 'Attempts before it became a dead letter.',
          'x-kubernetes-validations': immutable,
        },
        reason: {
          type: 'string',
          description: 'Why the last of them failed.',
          'x-kubernetes-validations': immutable,
        },
        payload: {
          type: 'object',
          description: 'The body. Absent if it is too large to be stored in an object.',
          'x-kubernetes-preserve-unknown-fields': true,
        },
        retry: { type: 'boolean', default: false, description: 'Whether it is to be delivered after all.' },
      },
    },
    status: {
      type: 'object',
      properties: {
        retries: { type: 'integer', minimum: 0, description: 'Failed attempts since then.' },
        conditions: conditionsSchema,
      },
    },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.subscription', indexFunc: ({ spec }) => spec.subscription }),
    singleValueIndex({ name: 'spec.object', indexFunc: ({ spec }) => spec.object }),
  ],
  printerColumns: [
    { name: 'Subscription', type: 'string', jsonPath: '.spec.subscription' },
    { name: 'Object', type: 'string', jsonPath: '.spec.object' },
    { name: 'Version', type: 'string', jsonPath: '.spec.version' },
    { name: 'Reason', type: 'string', jsonPath: '.spec.reason' },
    { name: 'Retry', type: 'boolean', jsonPath: '.spec.retry' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})

export type DeadLetterObject = ObjectOf<typeof DeadLetter>
