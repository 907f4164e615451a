import { isDeepStrictEqual } from 'node:util'
import {
  conditionsSchema,
  defineModel,
  type ObjectOf,
  singleValueIndex,
  type UserInfo,
} from '@setpoint/controller-runtime'
import { group } from './subscription.ts'

/**
 * A delivery that failed `maxAttempts` times. It belongs to its subscription and is deleted with it. It is retried
 * while `spec.retry` is true, and deleted once it is delivered. It is sensitive because its payload can be an object of
 * any kind.
 *
 * A retry is signed with the operator's key. So only the plugin creates dead letters, and only `spec.retry` of them
 * changes. A user may act for the account that the plugin's controllers run as, so what is signed also has a seal.
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
        subscription: { type: 'string' },
        id: { type: 'string', description: 'The webhook-id.' },
        object: {
          type: 'string',
          description:
            'The kind and name of the changed object, with its namespace: `Probe website`, or `Cart shop/big`.',
        },
        version: {
          type: 'string',
          description: 'The version of the change.',
        },
        attempts: {
          type: 'integer',
          description: 'Attempts before it became a dead letter.',
        },
        reason: {
          type: 'string',
          description: 'Why the last of them failed.',
        },
        payload: {
          type: 'object',
          description: 'The body. Absent if it is too large to be stored in an object.',
          'x-kubernetes-preserve-unknown-fields': true,
        },
        seal: {
          type: 'string',
          description:
            'Set by the plugin: that it has made the payload for this subscription. Without it, no retry.',
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
  validate({ spec }, { previous, user }) {
    if (previous === undefined) {
      const message = 'only the plugin creates dead letters'
      return isPlugin(user) ? [] : [{ field: 'spec', message, reason: 'FieldValueForbidden' }]
    }
    const changed = changedFields(spec, previous.spec).filter(name => name !== 'retry')
    return changed.map(name => ({ field: `spec.${name}`, message: 'is immutable' }))
  },
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

/**
 * Returns what a seal is for. It does not depend on the order of fields, which clients may change.
 * @param uid of the subscription
 */
export function sealedContent(uid: string, id: string, payload: unknown): string {
  return JSON.stringify([uid, id, payload], (_key, value: unknown) =>
    isObject(value) ? sorted(value) : value,
  )
}

/**
 * The plugin in the server's process, all callers while there is no authentication, and the server itself, as which
 * plugins run in tests.
 */
const ownUsers: readonly string[] = ['setpoint:plugin:webhooks', 'setpoint:local', 'setpoint:server']

/**
 * Returns true for a user that the plugin may run as. In another process that is a service account, or one of the
 * group.
 */
function isPlugin({ name, groups }: UserInfo): boolean {
  if (ownUsers.includes(name) || name.startsWith('system:serviceaccount:')) return true
  return groups.includes('setpoint:controllers')
}

function changedFields(after: object, before: object): string[] {
  const now = new Map<string, unknown>(Object.entries(after))
  const then = new Map<string, unknown>(Object.entries(before))
  const names = new Set([...now.keys(), ...then.keys()])
  return [...names].filter(name => !isDeepStrictEqual(now.get(name), then.get(name)))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function sorted(value: object): object {
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
}
