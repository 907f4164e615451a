import { useEffect, useMemo } from 'preact/hooks'
import type { World } from '../app-state.ts'
import { LiveList } from '../model/live-list.ts'

/** Returns the objects of a kind, live; no kind if the person may not list it. */
export function useList(
  world: World,
  of: (group: string, plural: string) => boolean,
  query: Record<string, string>,
) {
  const kind = world.listed.find(({ kind: { group, plural } }) => of(group, plural))?.kind
  const list = useMemo(
    () =>
      kind === undefined
        ? undefined
        : new LiveList(kind, undefined, new URLSearchParams({ size: '500', ...query })),
    [kind],
  )
  useEffect(() => () => list?.close(), [list])
  const rows = list?.listed.value?.rows.filter(({ isGone }) => !isGone) ?? []
  return { kind, objects: rows.map(({ object }) => object) }
}
