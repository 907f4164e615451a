import type { ServedModel } from '../model/index.ts'
import type { DefinitionNames, StoredDefinition } from './stored-definition.ts'

/** The names that may be used, and why others may not. */
export interface NamesDecision {
  /** The requested names. A name that somebody else holds is the one that was accepted before, or empty. */
  readonly accepted: DefinitionNames
  /** Undefined if all names are accepted. */
  readonly conflict: { readonly reason: string; readonly message: string } | undefined
}

/** What another definition may hold. */
export interface NameClaims
  extends Pick<StoredDefinition, 'name' | 'group' | 'createdAt' | 'names' | 'acceptedNames'> {
  /** True once a server has decided about its names. */
  readonly isDecided: boolean
}

/** Returns what a definition claims, without its schemas. */
export function claimsOf(definition: StoredDefinition): NameClaims {
  const { name, group, createdAt, names, acceptedNames, conditions } = definition
  return { name, group, createdAt, names, acceptedNames, isDecided: conditions.length > 0 }
}

/** Who holds each name of resources and of kinds in a group, as clauses for messages. */
interface Holders {
  readonly resources: ReadonlyMap<string, string>
  readonly kinds: ReadonlyMap<string, string>
}

/**
 * Decides about the names of a definition, as Kubernetes' naming controller does. A name that is accepted stays with its
 * definition. Of two new definitions the older one gets a name.
 * @param others the other definitions
 * @param served the kinds that this server serves, with those of definitions
 */
export function decideNames(
  definition: StoredDefinition,
  others: Iterable<NameClaims>,
  served: Iterable<ServedModel>,
): NamesDecision {
  const holders = holdersIn(definition, others, served)
  const { names: wanted, acceptedNames: before } = definition
  let conflict: NamesDecision['conflict']
  const take = <T extends string>(
    name: T,
    given: T,
    held: ReadonlyMap<string, string>,
    reason: string,
  ): T => {
    const holder = name === given ? undefined : held.get(name)
    if (holder === undefined) return name
    conflict = { reason, message: inUse(name, holder) }
    return given
  }
  const { resources, kinds } = holders
  const plural = take(wanted.plural, before.plural, resources, 'PluralConflict')
  const singular = take(wanted.singular, before.singular, resources, 'SingularConflict')
  const clashes = wanted.shortNames
    .filter(name => !before.shortNames.includes(name))
    .flatMap(name => {
      const holder = resources.get(name)
      return holder === undefined ? [] : [inUse(name, holder)]
    })
  if (clashes.length > 0) conflict = { reason: 'ShortNamesConflict', message: clashes.join(', ') }
  const kind = take(wanted.kind, before.kind, kinds, 'KindConflict')
  const listKind = take(wanted.listKind, before.listKind, kinds, 'ListKindConflict')
  const shortNames = clashes.length > 0 ? before.shortNames : wanted.shortNames
  const { categories } = wanted
  return { accepted: { plural, singular, kind, listKind, shortNames, categories }, conflict }
}

function inUse(name: string, holder: string): string {
  return `${JSON.stringify(name)} is already in use by ${holder}`
}

function holdersIn(
  definition: StoredDefinition,
  others: Iterable<NameClaims>,
  served: Iterable<ServedModel>,
): Holders {
  const resources = new Map<string, string>()
  const kinds = new Map<string, string>()
  const hold = (names: Omit<DefinitionNames, 'categories'>, holder: string) => {
    for (const name of [names.plural, names.singular, ...names.shortNames]) resources.set(name, holder)
    for (const name of [names.kind, names.listKind]) kinds.set(name, holder)
  }
  for (const other of others) {
    if (other.group !== definition.group || other.name === definition.name) continue
    const holder = `the definition ${JSON.stringify(other.name)}`
    if (other.acceptedNames.plural !== '') hold(other.acceptedNames, holder)
    // No server has decided about it yet.
    else if (!other.isDecided && isOlder(other, definition)) hold(other.names, holder)
  }
  for (const { model, plugin, defined } of served) {
    if (defined !== undefined || model.group !== definition.group) continue
    const holder = plugin === undefined ? 'the server' : `the plugin ${JSON.stringify(plugin)}`
    hold({ ...model, listKind: `${model.kind}List` }, holder)
  }
  // An empty name is nobody's.
  resources.delete('')
  kinds.delete('')
  return { resources, kinds }
}

function isOlder(one: NameClaims, other: StoredDefinition): boolean {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt
  return one.name < other.name
}
