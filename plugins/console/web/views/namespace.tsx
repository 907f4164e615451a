import type { World } from '../app-state.ts'
import { collectionPath, go, type Place } from '../route.ts'

/** Chooses the namespace of a collection. Whoever may not list namespaces writes its name. */
export function NamespaceChoice({
  place,
  world,
}: {
  place: Extract<Place, { at: 'collection' }>
  world: World
}) {
  const { namespace, query } = place
  const choose = (name: string) => {
    const next = new URLSearchParams(query)
    next.delete('page')
    go(collectionPath({ kind: place.kind, namespace: name === '' ? undefined : name }, next))
  }
  if (world.namespaces === undefined)
    return (
      <>
        <input
          type="text"
          aria-label="Namespace"
          list="namespaces"
          value={namespace ?? ''}
          placeholder="namespace"
          onChange={({ currentTarget }) => choose(currentTarget.value.trim())}
        />
        <datalist id="namespaces">
          <option value="default" />
        </datalist>
      </>
    )
  const names = new Set(world.namespaces)
  if (namespace !== undefined) names.add(namespace)
  return (
    <select
      aria-label="Namespace"
      value={namespace ?? ''}
      onChange={({ currentTarget }) => choose(currentTarget.value)}
    >
      <option value="">All namespaces</option>
      {[...names].map(name => (
        <option key={name} value={name} selected={name === namespace}>
          {name}
        </option>
      ))}
    </select>
  )
}
