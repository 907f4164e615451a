import { expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { startTestServer } from '../testing/test-server.ts'
import { createManager } from './manager.ts'

const managerCount = 20
const objectCount = 2_000

test('twenty managers that start at once, and restart after all crash, each see all of 2,000 objects', async () => {
  await using server = await startTestServer({ models: [Gadget] })
  const names = Array.from({ length: objectCount }, (_, n) => `g-${n}`)
  for (let n = 0; n < objectCount; n += 50) {
    await Promise.all(
      names
        .slice(n, n + 50)
        .map(name => server.client.create(Gadget, { metadata: { name }, spec: { size: 1 } })),
    )
  }
  const expected = new Map(names.map(name => [name, 1]))

  /** Starts all, and returns for each the size at its latest run of every object. */
  async function storm() {
    const members = await Promise.all(
      Array.from({ length: managerCount }, async () => {
        const transport = await server.httpTransport()
        const manager = createManager({ transport })
        const seen = new Map<string, number>()
        manager.controller(Gadget, c =>
          c.reconcile(({ metadata: { name }, spec: { size } }) => void seen.set(name, size)),
        )
        return { manager, transport, seen }
      }),
    )
    for (const { manager } of members) manager.start()
    return members
  }
  const allSee = (members: Awaited<ReturnType<typeof storm>>) =>
    eventually(
      () => members.every(({ seen }) => seen.size === objectCount && seen.get('g-0') === expected.get('g-0')),
      240_000,
    )

  const first = await storm()
  await allSee(first)
  // Their processes crash: connections break without a close.
  for (const { transport } of first) transport.close()
  await Promise.all(first.map(({ manager }) => manager.stop({ force: true })))

  const second = await storm()
  // Objects change meanwhile.
  for (const name of names.slice(0, 100).reverse()) {
    await server.client.patch(Gadget, name, { spec: { size: 2 } })
    expected.set(name, 2)
  }
  await allSee(second)
  for (const { seen } of second) expect(seen).toEqual(expected)
  await Promise.all(second.map(({ manager }) => manager.stop()))
  for (const { transport } of second) transport.close()
})

test('of many managers with one lease that start at once, one is active, and each of the others in turn', async () => {
  await using server = await startTestServer({ models: [Gadget] })
  for (let n = 0; n < 200; n++) {
    await server.client.create(Gadget, { metadata: { name: `g-${n}` }, spec: { size: 1 } })
  }
  /** The active managers, in order. */
  const terms: string[] = []
  const members = await Promise.all(
    Array.from({ length: managerCount }, async (_, n) => {
      const transport = await server.httpTransport()
      const manager = createManager({ transport, leaderElection: { lease: 'storm', identity: `m-${n}` } })
      manager.controller(Gadget, c =>
        c.reconcile(() => void (terms.at(-1) === `m-${n}` || terms.push(`m-${n}`))),
      )
      return { manager, transport, identity: `m-${n}` }
    }),
  )
  for (const { manager } of members) manager.start()
  const left = new Set(members)
  const leaders: string[] = []
  for (let turn = 0; turn < managerCount; turn++) {
    await eventually(() => [...left].filter(({ manager }) => manager.leadership?.isLeader).length === 1)
    const leader = [...left].find(({ manager }) => manager.leadership?.isLeader)
    if (leader === undefined) throw new Error('nobody leads')
    leaders.push(leader.identity)
    await eventually(() => terms.length > turn)
    expect(terms).toEqual(leaders)
    left.delete(leader)
    await leader.manager.stop()
    leader.transport.close()
  }
})
