import { type ApiObject, toRevision } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { type ChangeRecord, tenuresOf } from './tenures.ts'
import type { RunLog } from './watch-record/index.ts'

const logOf = (...events: ChangeRecord[]): RunLog => ({
  writes: [],
  watchers: [
    {
      name: 'the only one',
      selects: () => true,
      witness: true,
      connections: [{ start: 'present', acknowledged: toRevision(0), events }],
    },
  ],
  lists: [],
  otherWriters: true,
  markOf: () => undefined,
  uniqueOf: () => [],
})

function changeOf(at: number, name: string, content: { spec?: object; status?: object }): ChangeRecord {
  const version = String(at)
  const metadata: ApiObject['metadata'] = {
    name,
    version,
    resourceVersion: version,
    uid: name,
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00.000Z',
  }
  const object: ApiObject = { apiVersion: 'v1', kind: 'Thing', metadata, spec: {}, ...content }
  return { type: 'MODIFIED', name, version: toRevision(at), object }
}

const held = (version: number, holderIdentity?: string) =>
  changeOf(version, 'lease', { spec: { holderIdentity } })
const wrote = (version: number, by: string) => changeOf(version, 'turn', { status: { by } })

describe('tenuresOf', () => {
  it('accepts writes by the holder of the lease, also under a new identity', () => {
    const lease = logOf(held(1, 'x'), held(4, 'y'), held(6, 'y'), held(8, 'z'))
    const turns = logOf(wrote(2, 'a'), wrote(3, 'a'), wrote(5, 'b'), wrote(7, 'b'), wrote(9, 'a'))
    expect(tenuresOf(lease, turns)).toEqual({ stray: [], changes: 3, writers: new Set(['a', 'b']) })
  })

  it('finds a write by the former holder of the lease', () => {
    const lease = logOf(held(1, 'x'), held(4, 'y'))
    const turns = logOf(wrote(2, 'a'), wrote(5, 'b'), wrote(6, 'a'))
    expect(tenuresOf(lease, turns).stray).toEqual(['version 6: a wrote while b held the lease'])
  })

  it('finds a write after the lease was released', () => {
    const turns = logOf(wrote(2, 'a'), wrote(4, 'a'))
    expect(tenuresOf(logOf(held(1, 'x'), held(3)), turns).stray).toEqual([
      'version 4: a wrote while the lease was free',
    ])
  })
})
