import type { ResourceTarget, Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'

const wildcard = '*'

/**
 * All names and collections, one name, or several names. Most rules about names have one, for which a set is costly.
 */
type Names = true | string | Set<string>

/** By group, then by resource. */
type Resources = Map<string, Map<string, Names>>

interface Paths {
  readonly exact: Set<string>
  /** Paths that end with `*`, without it. */
  readonly prefixes: Set<string>
}

/** Rules, indexed for decisions: by verb, then by group, then by resource. */
export class RuleIndex {
  readonly #resources = new Map<string, Resources>()
  readonly #paths = new Map<string, Paths>()

  constructor(rules: Iterable<PolicyRule>) {
    for (const rule of rules)
      for (const verb of rule.verbs) {
        this.#addResources(verb, rule)
        this.#addPaths(verb, rule)
      }
  }

  /** Returns true if a rule allows a verb. */
  allows(verb: string, target: Target): boolean {
    if (typeof target === 'string')
      return hasPath(this.#paths.get(verb), target) || hasPath(this.#paths.get(wildcard), target)
    return hasTarget(this.#resources.get(verb), target) || hasTarget(this.#resources.get(wildcard), target)
  }

  #addResources(verb: string, { apiGroups = [], resources = [], resourceNames = [] }: PolicyRule): void {
    if (apiGroups.length === 0) return
    const groups: Resources = this.#resources.get(verb) ?? new Map()
    this.#resources.set(verb, groups)
    for (const group of apiGroups) {
      const known = groups.get(group) ?? new Map<string, Names>()
      groups.set(group, known)
      for (const resource of resources) known.set(resource, joined(known.get(resource), resourceNames))
    }
  }

  #addPaths(verb: string, { nonResourceURLs = [] }: PolicyRule): void {
    if (nonResourceURLs.length === 0) return
    const known: Paths = this.#paths.get(verb) ?? { exact: new Set(), prefixes: new Set() }
    this.#paths.set(verb, known)
    for (const path of nonResourceURLs) {
      known.exact.add(path)
      if (path.endsWith(wildcard)) known.prefixes.add(withoutWildcards(path))
    }
  }
}

/** Adds names to those of the index. Changes the set, because a role may have thousands of rules with a name each. */
function joined(known: Names | undefined, names: readonly string[]): Names {
  const [first] = names
  if (known === true || first === undefined) return true
  if (known === undefined && names.length === 1) return first
  const all = known instanceof Set ? known : new Set(known === undefined ? [] : [known])
  for (const name of names) all.add(name)
  return all
}

/** Returns a path without the wildcards at its end. */
function withoutWildcards(path: string): string {
  let end = path.length
  while (path[end - 1] === wildcard) end--
  return path.slice(0, end)
}

function hasPath(paths: Paths | undefined, path: string): boolean {
  if (paths === undefined) return false
  if (paths.exact.has(path)) return true
  for (const prefix of paths.prefixes) if (path.startsWith(prefix)) return true
  return false
}

function hasTarget(groups: Resources | undefined, target: ResourceTarget): boolean {
  if (groups === undefined) return false
  return hasResource(groups.get(target.group), target) || hasResource(groups.get(wildcard), target)
}

function hasResource(
  resources: ReadonlyMap<string, Names> | undefined,
  { plural, subresource, name }: ResourceTarget,
): boolean {
  if (resources === undefined) return false
  if (includes(resources.get(wildcard), name)) return true
  if (subresource === undefined) return includes(resources.get(plural), name)
  return (
    includes(resources.get(`${plural}/${subresource}`), name) ||
    includes(resources.get(`*/${subresource}`), name)
  )
}

function includes(names: Names | undefined, name: string | undefined): boolean {
  if (names === undefined || names === true) return names === true
  if (name === undefined) return false
  return typeof names === 'string' ? names === name : names.has(name)
}
