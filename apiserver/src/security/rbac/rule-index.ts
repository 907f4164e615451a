import type { Grant, ResourceTarget, Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'

const wildcard = '*'

/** The grant of all names and of collections, or the grant of each name. */
type Names = Grant | Map<string, Grant>

interface VerbRules {
  /** By group, then by resource. */
  readonly groups: Map<string, Map<string, Names>>
  readonly paths: Map<string, Grant>
  /** Paths that end with `*`, without it. */
  readonly prefixes: Map<string, Grant>
}

/** The rules of roles, indexed for decisions: by verb, then by group, then by resource. */
export class RuleIndex {
  readonly #verbs = new Map<string, VerbRules>()

  /**
   * Adds the rules of a grant. Rules that were added first are found first.
   * @param withPaths false leaves out rules about paths
   */
  add(rules: readonly PolicyRule[], grant: Grant, withPaths: boolean): void {
    for (const rule of rules) for (const verb of rule.verbs) this.#addVerb(verb, rule, grant, withPaths)
  }

  /** Returns what grants a verb, or undefined. */
  find(verb: string, target: Target): Grant | undefined {
    return findIn(this.#verbs.get(verb), target) ?? findIn(this.#verbs.get(wildcard), target)
  }

  #addVerb(verb: string, rule: PolicyRule, grant: Grant, withPaths: boolean): void {
    const known = this.#verbs.get(verb) ?? { groups: new Map(), paths: new Map(), prefixes: new Map() }
    this.#verbs.set(verb, known)
    for (const group of rule.apiGroups ?? []) {
      const resources = known.groups.get(group) ?? new Map<string, Names>()
      known.groups.set(group, resources)
      for (const resource of rule.resources ?? [])
        resources.set(resource, joined(resources.get(resource), rule.resourceNames ?? [], grant))
    }
    if (!withPaths) return
    for (const path of rule.nonResourceURLs ?? []) {
      addOnce(known.paths, path, grant)
      if (path.endsWith(wildcard)) addOnce(known.prefixes, path.replace(/\*+$/, ''), grant)
    }
  }
}

/** Adds names to those of the index. Changes the map, because a role may have thousands of rules with a name each. */
function joined(known: Names | undefined, names: readonly string[], grant: Grant): Names {
  if (known !== undefined && !(known instanceof Map)) return known
  if (names.length === 0) return grant
  const all = known ?? new Map<string, Grant>()
  for (const name of names) addOnce(all, name, grant)
  return all
}

function addOnce(grants: Map<string, Grant>, key: string, grant: Grant): void {
  if (!grants.has(key)) grants.set(key, grant)
}

function findIn(rules: VerbRules | undefined, target: Target): Grant | undefined {
  if (rules === undefined) return undefined
  if (typeof target === 'string') return findPath(rules, target)
  const { groups } = rules
  return findInGroup(groups.get(target.group), target) ?? findInGroup(groups.get(wildcard), target)
}

function findPath({ paths, prefixes }: VerbRules, path: string): Grant | undefined {
  const exact = paths.get(path)
  if (exact !== undefined) return exact
  for (const [prefix, grant] of prefixes) if (path.startsWith(prefix)) return grant
  return undefined
}

function findInGroup(
  resources: ReadonlyMap<string, Names> | undefined,
  { plural, subresource, name }: ResourceTarget,
): Grant | undefined {
  if (resources === undefined) return undefined
  const any = grantOf(resources.get(wildcard), name)
  if (any !== undefined) return any
  if (subresource === undefined) return grantOf(resources.get(plural), name)
  return (
    grantOf(resources.get(`${plural}/${subresource}`), name) ??
    grantOf(resources.get(`*/${subresource}`), name)
  )
}

function grantOf(names: Names | undefined, name: string | undefined): Grant | undefined {
  if (!(names instanceof Map)) return names
  return name === undefined ? undefined : names.get(name)
}
