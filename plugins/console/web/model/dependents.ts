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

/** Objects of a kind that are looked through. Only their metadata is asked for. */
const lookedThrough = 5_000
const metadataOnly = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'

/** Looks through the kinds that the person may list for objects that this one owns. Never rejects. */
export async function dependentsOf({ metadata: { uid } }: ApiObject, world: World): Promise<Dependent[]> {
  const waiting = [...world.listed]
  const found: Dependent[] = []
  const work = async () => {
    for (let listed = waiting.shift(); listed !== undefined; listed = waiting.shift()) {
      const { kind } = listed
      const { items } = await get(`${pathOfListed(listed)}?limit=${lookedThrough}`, {
        accept: metadataOnly,
      }).catch(() => ({ items: [] }))
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
  return found
}
