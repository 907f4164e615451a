import { expect, test } from 'vitest'
import type { Commit } from '../history.ts'
import { judgeLeaders } from './leaders.ts'
import { history } from './written.ts'

function held(at: number, holderIdentity: string): Commit {
  const names = { resource: 'coordination.k8s.io/leases', namespace: 'setpoint-system', name: 'controllers' }
  return { revision: at, at, ...names, object: { spec: { holderIdentity } } }
}

const write = (at: number, identity: string) => ({ at, identity, path: '/x' })

const complaints = (parts: Parameters<typeof history>[0]) =>
  judgeLeaders(history(parts)).map(({ message }) => message)

test('only the holder of the lease writes', () => {
  const leases = [held(10, 'a'), held(30, 'b')]
  expect(complaints({ leases, leaderWrites: [write(20, 'a'), write(40, 'b')] })).toEqual([])
  expect(complaints({ leases, leaderWrites: [write(31, 'a')] })).toEqual([
    'a wrote to /x while the lease was held by b',
  ])
  expect(complaints({ leases, leaderWrites: [write(20, 'b')] })).toHaveLength(1)
  expect(complaints({ leases: [], leaderWrites: [write(20, 'b')] })).toHaveLength(1)
})

test('a restore brings an earlier holder back', () => {
  const restores = [{ at: 25, revision: 100 }]
  expect(complaints({ leases: [held(10, 'a')], leaderWrites: [write(30, 'b')], restores })).toEqual([])
})
