import {
  ApiError,
  checkDnsLabel,
  checkLabelKey,
  type HookViolation,
  propagationFinalizers,
} from '@setpoint/controller-runtime/api'
import { defineBuiltInModel, selectableField, systemNamespace } from '@setpoint/controller-runtime/internal'
import { type BareObject, type KindRules, quote } from '../../model/index.ts'
import { recordOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'

/** The namespaces that always exist. */
export const permanentNamespaces: readonly string[] = Object.freeze(['default', systemNamespace])

/** The entry of `spec.finalizers` that is removed once the namespace is empty, as in Kubernetes. */
export const contentFinalizer = 'kubernetes'

/** The kind `Namespace` of `v1`, as in Kubernetes. */
const model = defineBuiltInModel({
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
  validate({ metadata, spec }, { previous }) {
    // It becomes part of host names in Kubernetes, so it is shorter than other names.
    const problem = checkDnsLabel(metadata.name)
    return [
      ...(problem === undefined ? [] : [{ field: 'metadata.name', message: problem }]),
      ...problemsOfFinalizers(finalizersOf({ spec }), finalizersOf({ spec: previous?.spec })),
    ]
  },
})

/**
 * A namespace in its life:
 *
 *     Active ──DELETE──▶ Terminating ──its objects are gone──▶ spec.finalizers empty ──▶ removed
 */
const rules: KindRules = {
  subresources: ['finalize'],
  returnsDeleted: true,
  created(draft) {
    labelName(draft)
    const { finalizers = [], ...spec } = recordOf(draft.spec)
    const isComplete = !Array.isArray(finalizers) || finalizers.includes(contentFinalizer)
    draft.spec = { ...spec, finalizers: isComplete ? finalizers : [...finalizers, contentFinalizer] }
    draft.status = { phase: 'Active' }
  },
  updated(draft, previous, scope) {
    labelName(draft)
    const { finalizers } = recordOf(scope === 'finalize' ? draft.spec : previous.spec)
    draft.spec = {
      ...recordOf(scope === 'finalize' ? previous.spec : draft.spec),
      finalizers: finalizers ?? [],
    }
    const isDeleting = previous.metadata.deletionTimestamp !== undefined
    draft.status = { ...recordOf(draft.status), phase: isDeleting ? 'Terminating' : 'Active' }
  },
  checkDeletion({ metadata: { name } }) {
    if (!permanentNamespaces.includes(name)) return
    throw new ApiError(
      'Forbidden',
      `namespaces ${JSON.stringify(name)} is forbidden: this namespace may not be deleted`,
      { name, kind: 'namespaces' },
    )
  },
  deleting(draft) {
    // `finalize` may have removed it before, but the namespace may have objects.
    const finalizers = finalizersOf(draft).filter(finalizer => finalizer !== contentFinalizer)
    draft.spec = { ...recordOf(draft.spec), finalizers: [contentFinalizer, ...finalizers] }
    draft.status = { ...recordOf(draft.status), phase: 'Terminating' }
  },
  holds: object => object.metadata.deletionTimestamp === undefined || finalizersOf(object).length > 0,
}

export const namespace: BuiltInKind = { model, rules }

/** The label with the name of the namespace, which clients cannot change. */
const nameLabel = 'kubernetes.io/metadata.name'

function labelName(draft: BareObject): void {
  const { name, labels } = draft.metadata
  if (labels?.[nameLabel] !== name)
    draft.metadata = { ...draft.metadata, labels: { ...labels, [nameLabel]: name } }
}

/** Returns the finalizers in the spec of a namespace. */
export function finalizersOf({ spec }: Pick<BareObject, 'spec'>): readonly unknown[] {
  const { finalizers } = recordOf(spec)
  return Array.isArray(finalizers) ? finalizers : []
}

/** The finalizers without a domain that Kubernetes allows. */
const standardFinalizers: ReadonlySet<unknown> = new Set([
  contentFinalizer,
  ...Object.values(propagationFinalizers),
])

/** Returns the violations of the new finalizers. A stored one is not checked again. */
function problemsOfFinalizers(finalizers: readonly unknown[], previous: readonly unknown[]): HookViolation[] {
  const known = new Set(previous)
  return finalizers
    .filter(finalizer => typeof finalizer === 'string')
    .filter(finalizer => !standardFinalizers.has(finalizer) && !known.has(finalizer))
    .filter(finalizer => !finalizer.includes('/') || checkLabelKey(finalizer) !== undefined)
    .map(finalizer => ({
      field: 'spec.finalizers',
      message: `${quote(finalizer)} is not <domain>/<name>, as in example.com/a`,
    }))
}
