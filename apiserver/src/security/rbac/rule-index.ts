import type { Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'

const wildcard = '*'

/** The names that are granted; true for all, also for collections. */
type Names = true | Set<string>

interface VerbRules {
  /** By group, then by resource. */
  readonly groups: Map<string, Map<string, Names>>
  readonly paths: Set<string>
  /** Paths that end with `*`, without it. */
  readonly prefixes: Set<string>
}

/** The rules of roles, indexed for decisions: by verb, then by group, then by resource. */
export class RuleIndex {
  readonly #verbs = new Map<string, VerbRules>()

  /** @param withPaths false leaves out rules about paths */
  add(rules: readonly PolicyRule[], withPaths: boolean): void {
    for (const rule of rules) for (const verb of rule.verbs) this.#addVerb(verb, rule, withPaths)
  }

  allows(verb: string, target: Target): boolean {
    const exact = this.#verbs.get(verb)
    if (exact !== undefined && verbAllows(exact, target)) return true
    const any = this.#verbs.get(wildcard)
    return any !== undefined && verbAllows(any, target)
  }

  #addVerb(verb: string, rule: PolicyRule, withPaths: boolean): void {
    const known = this.#verbs.get(verb) ?? { groups: new Map(), paths: new Set(), prefixes: new Set() }
    this.#verbs.set(verb, known)
    for (const group of rule.apiGroups ?? []) {
      const resources = known.groups.get(group) ?? new Map<string, Names>()
      known.groups.set(group, resources)
      for (const resource of rule.resources ?? [])
        resources.set(resource, joined(resources.get(resource), rule.resourceNames ?? []))
    }
    if (!withPaths) return
    for (const path of rule.nonResourceURLs ?? []) {
      known.paths.add(path)
      if (path.endsWith(wildcard)) known.prefixes.add(path.replace(/\*+$/, ''))
    }
  }
}

/** Adds names to those of the index. Changes the set, because a role may have thousands of rules with a name each. */
function joined(known: Names | undefined, names: readonly string[]): Names {
  if (known === true || names.length === 0) return true
  const all = known ?? new Set()
  for (const name of names) all.add(name)
  return all
}

function verbAllows({ groups, paths, prefixes }: VerbRules, target: Target): boolean {
  if (typeof target === 'string') {
    if (paths.has(target)) return true
    for (const prefix of prefixes) if (target.startsWith(prefix)) return true
    return false
  }
  const { group, plural, subresource, name } = target
  const exact = groups.get(group)
  if (exact !== undefined && groupAllows(exact, plural, subresource, name)) return true
  const any = groups.get(wildcard)
  return any !== undefined && groupAllows(any, plural, subresource, name)
}

function groupAllows(
  resources: ReadonlyMap<string, Names>,
  plural: string,
  subresource: string | undefined,
  name: string | undefined,
): boolean {
  if (covers(resources.get(wildcard), name)) return true
  if (subresource === undefined) return covers(resources.get(plural), name)
  return (
    covers(resources.get(`${plural}/${subresource}`), name) || covers(resources.get(`*/${subresource}`), name)
  )
}

function covers(names: Names | undefined, name: string | undefined): boolean {
  return names !== undefined && (names === true || (name !== undefined && names.has(name)))
}
