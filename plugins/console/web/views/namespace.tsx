import { lookInto, type World } from '../app-state.ts'
import { collectionPath, go, type Place } from '../route.ts'

/** Chooses the namespace of a collection. */
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
  if (world.namespaces === undefined) return <NamedNamespace value={namespace ?? ''} choose={choose} />
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

/** Asks a person who may not list namespaces for the name of one, and looks for the kinds that they may list there. */
export function NamedNamespace({
  value = '',
  choose = () => {},
}: {
  value?: string
  choose?: (name: string) => void
}) {
  return (
    <>
      <input
        type="text"
        aria-label="Namespace"
        list="namespaces"
        value={value}
        placeholder="namespace"
        onChange={({ currentTarget }) => {
          const name = currentTarget.value.trim()
          if (name !== '') void lookInto(name)
          choose(name)
        }}
      />
      <datalist id="namespaces">
        <option value="default" />
      </datalist>
    </>
  )
}
