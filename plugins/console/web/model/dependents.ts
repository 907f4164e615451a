import { type Kind, pathOfKind } from '../api/discovery.ts'
import { get } from '../api/http.ts'
import { type ApiObject, fieldsOf, listOf, textOf } from '../api/json.ts'
import { pathOfListed, type World } from '../app-state.ts'

/** An object that belongs to another one. */
export interface Dependent {
  readonly kind: Kind
  readonly name: string
  readonly namespace: string | undefined
  readonly uid: string
  /** The uids of its owners. */
  readonly owners: readonly string[]
  readonly path: string
}

export interface Dependents {
  readonly found: readonly Dependent[]
  /** What was not looked through, as a sentence. Empty: everything that the person may list was. */
  readonly gap: string
}

/** Objects of a kind that are looked through: the API has no index of owners. Only their metadata is asked for. */
const lookedThrough = 5_000
const metadataOnly = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'

/** Looks for the objects that this one owns. Never rejects. */
export function dependentsOf({ metadata: { uid } }: ApiObject, world: World): Promise<Dependents> {
  return lookThrough(world, ({ owners }) => owners.includes(uid))
}

/** Looks for everything that the deletion of an object takes with it. Never rejects. */
export async function goingWith(object: ApiObject, world: World): Promise<Dependents> {
  const isPart = partsOf(object)
  const { found: all, gap } = await lookThrough(world, each => each.owners.length > 0 || isPart(each))
  const going = new Set([object.metadata.uid])
  // An object with another owner stays. One pass finds what goes with what the pass before has found.
  const goes = ({ owners }: Dependent) => owners.length > 0 && owners.every(owner => going.has(owner))
  const found: Dependent[] = []
  for (let before = -1; before < found.length; ) {
    before = found.length
    for (const each of all) {
      if (going.has(each.uid) || !(isPart(each) || goes(each))) continue
      going.add(each.uid)
      found.push(each)
    }
  }
  return { found, gap }
}

/** Returns which objects are in a namespace, or of the kind of a definition. */
function partsOf({ apiVersion, kind, metadata: { name }, spec }: ApiObject): (each: Dependent) => boolean {
  if (apiVersion === 'v1' && kind === 'Namespace') return each => each.namespace === name
  if (!apiVersion.startsWith('apiextensions.k8s.io/')) return () => false
  const { group, names } = fieldsOf(spec)
  return each => each.kind.group === group && each.kind.plural === fieldsOf(names).plural
}

/** Looks through the kinds that the person may list. Never rejects. */
async function lookThrough(world: World, isWanted: (each: Dependent) => boolean): Promise<Dependents> {
  const waiting = [...world.listed]
  const found: Dependent[] = []
  const cut: string[] = []
  const failed: string[] = []
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { kind } = next
      const list = await get(`${pathOfListed(next)}?limit=${lookedThrough}`, {
        accept: metadataOnly,
      }).catch(() => undefined)
      if (list === undefined) failed.push(kind.plural)
      const { items, metadata } = list ?? { items: [], metadata: {} }
      if (textOf(fieldsOf(metadata).continue) !== '') cut.push(kind.plural)
      found.push(
        ...listOf(items)
          .map(item => dependentOf(kind, item))
          .filter(isWanted),
      )
    }
  }
  await Promise.all([work(), work(), work(), work()])
  const unseen = [...new Set(world.kinds.map(({ plural }) => plural))].filter(
    plural => !world.listed.some(({ kind }) => kind.plural === plural),
  )
  return {
    found,
    gap: [
      cut.length === 0
        ? ''
        : `Of ${listed(cut)} only the first ${lookedThrough.toLocaleString('en')} objects were looked through.`,
      failed.length === 0 ? '' : `The server did not list ${listed(failed)}.`,
      unseen.length === 0 ? '' : `You may not list ${listed(unseen)}.`,
    ]
      .filter(each => each !== '')
      .join(' '),
  }
}

/** Kinds that are named; of more, their number is told. */
const namedKinds = 5

function listed(plurals: readonly string[]): string {
  const more = plurals.length - namedKinds
  const names = plurals.slice(0, namedKinds).join(', ')
  return more <= 0 ? names : `${names} and ${more === 1 ? 'one other kind' : `${more} other kinds`}`
}

function dependentOf(kind: Kind, item: unknown): Dependent {
  const { name, namespace, uid, ownerReferences } = fieldsOf(fieldsOf(item).metadata)
  const within = textOf(namespace) || undefined
  return {
    kind,
    name: textOf(name),
    namespace: within,
    uid: textOf(uid),
    owners: listOf(ownerReferences).map(each => textOf(fieldsOf(each).uid)),
    path: pathOfKind(kind, within, textOf(name)),
  }
}
