import { type Kind, pathOfKind } from '../api/discovery.ts'
import { get } from '../api/http.ts'
import { type ApiObject, fieldsOf, listOf, textOf } from '../api/json.ts'
import { pathOfListed, type World } from '../app-state.ts'

/** An object that names another one as its owner. */
export interface Dependent {
  readonly kind: Kind
  readonly name: string
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

/** Looks through the kinds that the person may list for objects that this one owns. Never rejects. */
export async function dependentsOf({ metadata: { uid } }: ApiObject, world: World): Promise<Dependents> {
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
      for (const item of listOf(items)) {
        const { name, namespace, ownerReferences } = fieldsOf(fieldsOf(item).metadata)
        if (listOf(ownerReferences).some(each => fieldsOf(each).uid === uid))
          found.push({
            kind,
            name: textOf(name),
            path: pathOfKind(kind, textOf(namespace) || undefined, textOf(name)),
          })
      }
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
