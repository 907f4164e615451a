import type { Action } from './plan.ts'
import { secondVersion } from './versions.ts'

/** Returns what a server has to do in the end, in every version that it then has. */
export function lastActions(server: number, hasSecond: boolean): Action[] {
  const kinds = ['gadgets', 'parts', 'namespaces', 'definitions', 'gears'] as const
  const lists = kinds.map(of => ({ do: 'list', of, selection: {}, stale: false }) as const)
  if (!hasSecond) return lists
  const email = `end-${server}`
  const common = { do: 'create', name: `end-${server}`, color: 'red', version: secondVersion } as const
  return [
    ...lists,
    ...lists
      .filter(({ of }) => of === 'gadgets' || of === 'parts')
      .map(list => ({ ...list, version: secondVersion })),
    { ...common, of: 'gadgets', spec: { email, size: server } },
    { ...common, of: 'parts', namespace: 'default', spec: { size: server } },
  ]
}
