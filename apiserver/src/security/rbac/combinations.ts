import type { Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'

/** Returns true if every combination of verb and target in a rule passes. Wildcards are combinations of their own. */
export function everyCombination(
  { verbs, apiGroups = [], resources = [], resourceNames = [], nonResourceURLs = [] }: PolicyRule,
  namespace: string | undefined,
  passes: (verb: string, target: Target) => boolean,
): boolean {
  const names = resourceNames.length === 0 ? [undefined] : resourceNames
  return verbs.every(
    verb =>
      nonResourceURLs.every(path => passes(verb, path)) &&
      apiGroups.every(group =>
        resources.every(resource => {
          const slash = resource.indexOf('/')
          const plural = slash < 0 ? resource : resource.slice(0, slash)
          const subresource = slash < 0 ? undefined : resource.slice(slash + 1)
          return names.every(name => passes(verb, { group, plural, namespace, name, subresource }))
        }),
      ),
  )
}

/** Returns the number of combinations of verb and target in a rule. */
export function combinationsOf({
  verbs,
  apiGroups = [],
  resources = [],
  resourceNames = [],
  nonResourceURLs = [],
}: PolicyRule): number {
  const objects = apiGroups.length * resources.length * Math.max(1, resourceNames.length)
  return verbs.length * (objects + nonResourceURLs.length)
}
