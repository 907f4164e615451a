import { type Fields, recordsOf, textOf, textsOf } from '../../kubernetes/index.ts'
import type { ServedVersion } from '../../model/index.ts'
import type { AdmissionRequest } from '../../registry/index.ts'

/** A rule of a webhook or a policy. */
export interface Rule {
  readonly operations: readonly string[]
  readonly groups: readonly string[]
  readonly versions: readonly string[]
  /** Pairs of a resource and a subresource. */
  readonly resources: readonly (readonly [resource: string, subresource: string])[]
  readonly scope: string
  /** Empty for all names. */
  readonly names: readonly string[]
}

export function readRules(value: unknown): Rule[] {
  return recordsOf(value).map(readRule)
}

function readRule(rule: Fields): Rule {
  return {
    operations: textsOf(rule.operations),
    groups: textsOf(rule.apiGroups),
    versions: textsOf(rule.apiVersions),
    resources: textsOf(rule.resources).map(text => {
      const slash = text.indexOf('/')
      return slash < 0 ? [text, ''] : [text.slice(0, slash), text.slice(slash + 1)]
    }),
    scope: textOf(rule.scope) || '*',
    names: textsOf(rule.resourceNames),
  }
}

/** What a rule is matched with. */
export interface RuleSubject extends Pick<AdmissionRequest, 'operation'> {
  readonly version: ServedVersion
  readonly resource: string
  readonly subresource: string
  readonly name: string
  readonly isNamespaced: boolean
}

/** Returns what rules are matched with, before the object is known or after. */
export function subjectOf({
  request,
  operation,
  version,
  resource,
  subresource,
  name,
}: Omit<RuleSubject, 'isNamespaced'> & { readonly request: AdmissionRequest }): RuleSubject {
  const { isNamespaced } = request.served.indexes
  return { operation, version, resource, subresource, name, isNamespaced }
}

/** Returns true if a rule matches requests to a version of the kind. */
function matches(rule: Rule, subject: RuleSubject, { group, name: version }: ServedVersion): boolean {
  const { operation, resource, subresource, isNamespaced, name } = subject
  return (
    (rule.scope === '*' || rule.scope === (isNamespaced ? 'Namespaced' : 'Cluster')) &&
    isIn(rule.operations, operation) &&
    isIn(rule.groups, group) &&
    isIn(rule.versions, version) &&
    rule.resources.some(
      ([each, sub]) => (each === '*' || each === resource) && (sub === '*' || sub === subresource),
    ) &&
    (rule.names.length === 0 || rule.names.includes(name))
  )
}

function isIn(values: readonly string[], value: string): boolean {
  return values.includes('*') || values.includes(value)
}

/**
 * Returns the version in which a write is shown to the owner of the rules, or undefined if no rule matches: the version of the
 * request, or the first other version that a rule matches.
 * @param versions those of the kind, if they count as equivalent
 */
export function matchedVersion(
  rules: readonly Rule[],
  subject: RuleSubject,
  versions: readonly ServedVersion[],
): ServedVersion | undefined {
  if (rules.some(rule => matches(rule, subject, subject.version))) return subject.version
  for (const rule of rules) {
    const found = versions.find(version => version !== subject.version && matches(rule, subject, version))
    if (found !== undefined) return found
  }
  return undefined
}
