import {
  ApiError,
  checkDnsLabel,
  checkLabelKey,
  type HookViolation,
  type Model,
  propagationFinalizers,
} from '@setpoint/controller-runtime/api'
import { Namespace, systemNamespace } from '@setpoint/controller-runtime/internal'
import { type BareObject, type KindRules, quote } from '../../model/index.ts'
import { recordOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'

/** The namespaces that always exist. */
export const permanentNamespaces: readonly string[] = Object.freeze(['default', systemNamespace])

/** The entry of `spec.finalizers` that is removed once the namespace is empty, as in Kubernetes. */
export const contentFinalizer = 'kubernetes'

/** The kind `Namespace` of `v1`, as in Kubernetes. */
const model: Model<Namespace> = {
  ...Namespace,
  validate({ metadata, spec }, { previous }) {
    // It becomes part of host names in Kubernetes, so it is shorter than other names.
    const problem = checkDnsLabel(metadata.name)
    return [
      ...(problem === undefined ? [] : [{ field: 'metadata.name', message: problem }]),
      ...problemsOfFinalizers(finalizersOf({ spec }), finalizersOf({ spec: previous?.spec })),
    ]
  },
}

/**
 * A namespace in its life:
 *
 *     Active ──DELETE──▶ Terminating ──its objects are gone──▶ spec.finalizers empty ──▶ removed
 */
const rules: KindRules = {
  subresources: ['finalize'],
  statusTakesMetadata: true,
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
