import { isRecord } from '@setpoint/controller-runtime/api'
import { type Fields, readSelector, textMapOf } from '../../kubernetes/index.ts'
import type { ServedVersion } from '../../model/index.ts'
import { type LabelSelector, selects } from '../../security/index.ts'
import type { AdmissionAttributes } from './attributes.ts'
import { matchedVersion, type Rule, type RuleSubject } from './rules.ts'

/** The writes that a webhook, a policy or a binding is about. */
export interface Selection {
  /** Undefined for all writes. */
  readonly rules: readonly Rule[] | undefined
  readonly excluded: readonly Rule[]
  /** True if requests to other versions of a kind count, too. */
  readonly isEquivalent: boolean
  /** Undefined for all namespaces. */
  readonly namespaces: LabelSelector | undefined
  /** Undefined for all objects. */
  readonly objects: LabelSelector | undefined
}

/** Finds namespaces, for selectors and for expressions. */
export interface NamespaceSource {
  /** Returns a namespace as the API shows it. @throws ApiError 404 if it does not exist */
  get(name: string): Promise<Fields>
}

/** Reads `matchPolicy` and the selectors of a webhook, or of what a policy matches. */
export function readSelection(
  fields: Fields,
  rules: readonly Rule[] | undefined,
  excluded: readonly Rule[] = [],
): Selection {
  return {
    rules,
    excluded,
    isEquivalent: fields.matchPolicy !== 'Exact',
    namespaces: readNonEmpty(fields.namespaceSelector),
    objects: readNonEmpty(fields.objectSelector),
  }
}

function readNonEmpty(value: unknown): LabelSelector | undefined {
  const selector = isRecord(value) ? readSelector(value) : {}
  const { matchLabels = {}, matchExpressions = [] } = selector
  return Object.keys(matchLabels).length + matchExpressions.length === 0 ? undefined : selector
}

/** Returns the version in which the rules match a write, or undefined if they do not. */
export function versionFor(
  { rules, excluded, isEquivalent }: Selection,
  subject: RuleSubject,
  versions: readonly ServedVersion[],
): ServedVersion | undefined {
  const equivalents = isEquivalent ? versions : []
  if (matchedVersion(excluded, subject, equivalents) !== undefined) return undefined
  return rules === undefined ? subject.version : matchedVersion(rules, subject, equivalents)
}

/** Returns true if the selectors match a write. @throws ApiError 404 if the namespace does not exist */
export async function isSelected(
  { namespaces, objects }: Selection,
  attributes: AdmissionAttributes,
  source: NamespaceSource,
): Promise<boolean> {
  if (objects !== undefined && !attributes.labels.some(labels => selects(objects, labels))) return false
  return namespaces === undefined || isNamespaceSelected(namespaces, attributes, source)
}

async function isNamespaceSelected(
  selector: LabelSelector,
  { isNamespace, subresource, operation, object, namespace }: AdmissionAttributes,
  source: NamespaceSource,
): Promise<boolean> {
  // A namespace that is being written is not in the caches as it will be.
  if (isNamespace && subresource === '' && operation !== 'DELETE')
    return selects(selector, object?.metadata.labels ?? {})
  if (namespace === '') return true
  const { metadata } = await source.get(namespace)
  return selects(selector, textMapOf(isRecord(metadata) ? metadata.labels : undefined))
}
