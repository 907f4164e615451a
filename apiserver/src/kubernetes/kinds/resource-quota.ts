import { checkLabelKey, type HookViolation } from '@setpoint/controller-runtime/api'
import { defineBuiltInModel, systemNamespace } from '@setpoint/controller-runtime/internal'
import { type BareObject, formatPath, Quantity } from '../../model/index.ts'
import { type Fields, recordOf, textOf, textsOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'
import { ageColumn } from './columns.ts'

const quantities = { type: 'object', additionalProperties: { type: 'string', default: '0' } } as const

/** `ResourceQuota` of `v1`: how much a namespace may hold. */
export const resourceQuota: BuiltInKind = {
  model: defineBuiltInModel({
    group: '',
    version: 'v1',
    kind: 'ResourceQuota',
    singular: 'resourcequota',
    plural: 'resourcequotas',
    shortNames: ['quota'],
    scope: 'Namespaced',
    names: 'dns-subdomain',
    schema: {
      spec: {
        type: 'object',
        properties: {
          hard: {
            ...quantities,
            description:
              'The limits, by what they bound: count/<plural>.<group> for the objects of a kind, and <reserved domain>/bytes, such as setpoint.dev/bytes, for the bytes of all objects.',
          },
          scopes: {
            type: 'array',
            items: { type: 'string' },
            'x-kubernetes-list-type': 'atomic',
            description: 'Must be empty: scopes select pods.',
          },
          scopeSelector: {
            type: 'object',
            'x-kubernetes-map-type': 'atomic',
            'x-kubernetes-preserve-unknown-fields': true,
            description: 'Must be absent: scopes select pods.',
          },
        },
      },
      status: {
        type: 'object',
        properties: {
          hard: { ...quantities, description: 'The limits in force.' },
          used: { ...quantities, description: 'What the namespace holds, by the limits that are enforced.' },
        },
      },
    },
    subresources: { status: true },
    validate: ({ metadata, spec, status }, { previous }) => [
      ...(previous === undefined ? problemsOfNamespace(metadata.namespace) : []),
      ...problemsOfHard(recordOf(spec).hard, ['spec', 'hard']),
      ...problemsOfScopes(recordOf(spec)),
      ...problemsOfHard(recordOf(status).hard, ['status', 'hard']),
      ...problemsOfHard(recordOf(status).used, ['status', 'used']),
    ],
  }),
  rules: {
    statusTakesMetadata: true,
    columns: [
      {
        name: 'Request',
        type: 'string',
        description: 'What is used of each limit.',
        cell: ({ status }) => usesOf(recordOf(status), name => !isLimitOfPods(name)),
      },
      {
        name: 'Limit',
        type: 'string',
        description: 'The same for the limits of pods.',
        cell: ({ status }) => usesOf(recordOf(status), isLimitOfPods),
      },
      ageColumn,
    ],
    returnsDeleted: true,
    created: normalize,
    updated: normalize,
  },
}

/** Writes quantities that are numbers as texts, as Kubernetes does. */
function normalize(draft: BareObject): void {
  const text = (value: unknown) => (typeof value === 'number' ? String(value) : value)
  const withTexts = (part: unknown, fields: readonly string[]) => {
    const changed = { ...recordOf(part) }
    for (const field of fields) {
      const entries = Object.entries(recordOf(changed[field]))
      if (entries.some(([, value]) => typeof value === 'number'))
        changed[field] = Object.fromEntries(entries.map(([name, value]) => [name, text(value)]))
    }
    return changed
  }
  if (draft.spec !== undefined) draft.spec = withTexts(draft.spec, ['hard'])
  if (draft.status !== undefined) draft.status = withTexts(draft.status, ['hard', 'used'])
}

/** A limit there could keep the plugins' leaders from renewing their leases. */
function problemsOfNamespace(namespace: string | undefined): HookViolation[] {
  if (namespace !== systemNamespace) return []
  const message = `must not be ${systemNamespace}, which has the server's own objects`
  return [{ field: 'metadata.namespace', message }]
}

/** The names without a prefix that Kubernetes allows. Those of pods and services are never counted here. */
const standardNames: ReadonlySet<string> = new Set([
  ...['configmaps', 'secrets', 'resourcequotas', 'pods', 'services', 'replicationcontrollers'],
  ...['persistentvolumeclaims', 'services.loadbalancers', 'services.nodeports'],
  ...['cpu', 'memory', 'ephemeral-storage', 'requests.cpu', 'requests.memory', 'requests.storage'],
  ...['requests.ephemeral-storage', 'limits.cpu', 'limits.memory', 'limits.ephemeral-storage'],
])

const amounts = /^(?:requests\.|limits\.)?(?:cpu|memory|storage|ephemeral-storage)$/

/** As Kubernetes validates a list of resources. */
function problemsOfHard(hard: unknown, path: readonly string[]): HookViolation[] {
  return Object.entries(recordOf(hard)).flatMap(([name, value]) => {
    const message = problemOfName(name) ?? problemOfQuantity(name, textOf(value))
    return message === undefined ? [] : [{ field: formatPath([...path, name]), message }]
  })
}

function problemOfName(name: string): string | undefined {
  if (name.includes('/')) return checkLabelKey(name)
  return standardNames.has(name) ? undefined : 'must be a standard resource for quota'
}

function problemOfQuantity(name: string, text: string): string | undefined {
  const quantity = Quantity.parse(text)
  if (quantity === undefined) return 'must be a quantity, such as 10 or 64Mi'
  if (quantity.nanos < 0n) return 'must be greater than or equal to 0'
  return amounts.test(name) || quantity.isInteger ? undefined : 'must be an integer'
}

function problemsOfScopes({ scopes, scopeSelector }: Fields): HookViolation[] {
  const message = 'must be absent: scopes select pods'
  return [
    ...(textsOf(scopes).length === 0 ? [] : [{ field: 'spec.scopes', message }]),
    ...(scopeSelector === undefined ? [] : [{ field: 'spec.scopeSelector', message }]),
  ]
}

function isLimitOfPods(name: string): boolean {
  return name.startsWith('limits.')
}

function usesOf({ hard, used }: Fields, isShown: (name: string) => boolean): string {
  const names = Object.keys(recordOf(hard)).filter(isShown).sort()
  return names.map(name => `${name}: ${recordOf(used)[name] ?? 0}/${recordOf(hard)[name]}`).join(', ')
}
