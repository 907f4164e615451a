import { afterEach, describe, expect, test } from 'vitest'
import { FaultyTransport } from '../../../test/support/sdk/faulty-transport.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { createClient } from '../client/create-client.ts'
import { TransportError } from '../client/transport.ts'
import { Lease } from '../kinds/lease.ts'
import { silentLogger } from '../logger.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { LeaderElector, LeadershipLostError } from './leader-election.ts'
import { type LeaderElectionOptions, readLeaderElectionOptions } from './leader-election-options.ts'

const name = 'work'

interface Candidate {
  readonly elector: LeaderElector
  readonly clock: FakeClock
  readonly link: FaultyTransport
  /** The log lines, in order. */
  readonly story: string[]
  readonly mayAct: boolean
}

const electors: LeaderElector[] = []
afterEach(() => {
  for (const elector of electors.splice(0)) elector.withdraw()
})

/** Candidates whose clocks run at the same speed and show any time. */
class Election {
  readonly server = new MemoryServer()
  readonly candidates: Candidate[] = []
  readonly client = createClient(this.server).inNamespace('setpoint-system')

  join(
    identity: string,
    options: Partial<LeaderElectionOptions> & { startMs?: number; aftermath?: Promise<void> } = {},
  ): Candidate {
    const { startMs, aftermath = Promise.resolve(), ...rest } = options
    const clock = new FakeClock(startMs)
    const link = new FaultyTransport(this.server)
    const story: string[] = []
    const elector = new LeaderElector({
      client: createClient(link),
      clock,
      log: silentLogger,
      settings: readLeaderElectionOptions({ lease: name, identity, random: () => 0.5, ...rest }),
      onStarted: () => void story.push('started'),
      onLost: () => {
        story.push('lost')
        return aftermath
      },
    })
    electors.push(elector)
    const candidate = {
      elector,
      clock,
      link,
      story,
      get mayAct() {
        try {
          elector.leadershipGuard()
          return true
        } catch {
          return false
        }
      },
    }
    this.candidates.push(candidate)
    elector.start()
    return candidate
  }

  /** Advances the time for all, in small steps, and checks after each that at most one may act. */
  async pass(ms: number, stepMs = 250): Promise<void> {
    for (let passed = 0; passed < ms; passed += stepMs) {
      for (const { clock } of this.candidates) await clock.advance(stepMs)
      expect(this.candidates.filter(({ elector }) => elector.isLeader).length).toBeLessThanOrEqual(1)
    }
  }

  get lease() {
    return this.client.get(Lease, name)
  }
}

describe('a candidate', () => {
  test('is the leader while it renews, and the others stand by', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(1_000)
    const b = election.join('b')
    await election.pass(120_000)
    expect(a.story).toEqual(['started'])
    expect(b.story).toEqual([])
    expect([a.mayAct, b.mayAct]).toEqual([true, false])
    expect(b.elector.leader).toBe('a')
    expect((await election.lease).spec).toMatchObject({
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
    })
  })

  test.each([
    ['an hour behind', -3_600_000],
    ['an hour ahead', 3_600_000],
    ['twenty years ahead', 20 * 365 * 86_400_000],
  ])(
    'is not affected by one whose clock is %s, which takes over after the lease expires',
    async (_, skewMs) => {
      const election = new Election()
      const a = election.join('a', { startMs: Date.UTC(2030, 0, 1) })
      await election.pass(1_000)
      const b = election.join('b', { startMs: Date.UTC(2030, 0, 1) + skewMs })
      await election.pass(60_000)
      expect(b.story).toEqual([])
      a.link.state = 'down'
      // The last renewal was up to 2 s ago, and b saw it up to 3.2 s after that.
      await election.pass(11_750)
      expect(b.story).toEqual([])
      expect(a.story).toEqual(['started', 'lost'])
      await election.pass(12_000)
      expect(b.story).toEqual(['started'])
      const { spec } = await election.lease
      expect(spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 })
      expect(spec.acquireTime).not.toBe((await election.lease).metadata.creationTimestamp)
    },
  )

  test('keeps the lease when its wall clock jumps', async () => {
    const election = new Election()
    const a = election.join('a')
    const b = election.join('b')
    await election.pass(5_000)
    for (const ms of [86_400_000, -2 * 86_400_000, 1_000]) {
      a.clock.jump(ms)
      b.clock.jump(-ms)
      await election.pass(20_000)
    }
    expect(a.story).toEqual(['started'])
    expect(b.story).toEqual([])
  })

  test('is alone also if all start at once', async () => {
    const election = new Election()
    for (let n = 0; n < 8; n++) election.join(`c-${n}`, { random: () => n / 8 })
    await election.pass(60_000)
    expect(election.candidates.filter(({ story }) => story.includes('started'))).toHaveLength(1)
  })

  test('acquires a released lease, which counts as a transition', async () => {
    const election = new Election()
    await election.client.create(Lease, {
      metadata: { name, labels: { 'example.com/of': 'people' } },
      spec: { holderIdentity: '', leaseDurationSeconds: 1, leaseTransitions: 7 },
    })
    const a = election.join('a')
    await election.pass(250)
    expect(a.story).toEqual(['started'])
    const { spec, metadata } = await election.lease
    expect(spec.leaseTransitions).toBe(8)
    expect(metadata.labels).toEqual({ 'example.com/of': 'people' })
  })

  test('acquires a lease as soon as it expires, whenever its last attempt was', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(1_000)
    const b = election.join('b')
    await election.pass(20_000, 50)
    a.link.state = 'down'
    const { version } = (await election.lease).metadata
    const renewedAt = b.clock.monotonic()
    // The last renewal that b saw may be 2 s older than the one that it sees next.
    await election.pass(12_900, 50)
    expect(b.story).toEqual([])
    await election.pass(2_150, 50)
    expect(b.story).toEqual(['started'])
    expect(b.clock.monotonic() - renewedAt).toBeLessThanOrEqual(15_050)
    expect((await election.lease).metadata.version).not.toBe(version)
  })

  test('waits for the duration in the record, not for its own', async () => {
    const election = new Election()
    await election.client.create(Lease, {
      metadata: { name },
      spec: { holderIdentity: 'gone', leaseDurationSeconds: 60 },
    })
    const a = election.join('a')
    await election.pass(59_000)
    expect(a.story).toEqual([])
    await election.pass(5_000)
    expect(a.story).toEqual(['started'])
  })

  test('keeps its acquireTime over renewals, and stays the leader if the record is deleted', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    const before = (await election.lease).spec
    await election.pass(10_000)
    const after = (await election.lease).spec
    expect(after.acquireTime).toBe(before.acquireTime)
    expect(after.renewTime).not.toBe(before.renewTime)
    await election.client.delete(Lease, name)
    await election.pass(5_000)
    expect(a.story).toEqual(['started'])
    expect((await election.lease).spec.holderIdentity).toBe('a')
  })
})

describe('a leader', () => {
  test('renews without reading, and reads once after another writer changed the record', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    election.server.requests.length = 0
    await election.pass(10_000)
    expect(election.server.requests.filter(request => request.startsWith('GET'))).toEqual([])
    await election.client.patch(Lease, name, { metadata: { labels: { 'example.com/touched': 'yes' } } })
    await election.pass(4_000)
    expect(a.elector.slowPaths).toBe(1)
    expect(a.story).toEqual(['started'])
    expect((await election.lease).metadata.labels).toEqual({ 'example.com/touched': 'yes' })
  })

  test.each(['down', 'silent'] as const)(
    'that is disconnected (%s) may not act after the renew deadline, well before another may',
    async state => {
      const election = new Election()
      const a = election.join('a')
      await election.pass(250)
      const b = election.join('b')
      await election.pass(4_000)
      a.link.state = state
      // From the start of the last renewal, which is at most 2 s ago.
      await election.pass(7_500)
      expect(a.mayAct).toBe(true)
      await election.pass(2_500)
      expect(a.mayAct).toBe(false)
      expect(a.story).toEqual(['started', 'lost'])
      expect(b.mayAct).toBe(false)
      await election.pass(9_000)
      expect(b.mayAct).toBe(true)
      // It returns as a standby.
      a.link.state = 'up'
      await election.pass(60_000)
      expect([a.mayAct, b.mayAct]).toEqual([false, true])
      expect([a.elector.leader, a.elector.trouble]).toEqual(['b', undefined])
    },
  )

  test('that returns before another acquired the lease starts a new term', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(4_000)
    a.link.state = 'down'
    await election.pass(12_000)
    expect(a.story).toEqual(['started', 'lost'])
    a.link.state = 'up'
    await election.pass(5_000)
    expect(a.story).toEqual(['started', 'lost', 'started'])
    expect((await election.lease).spec.leaseTransitions).toBe(0)
  })

  test('does not start a new term before the work of the last one has ended', async () => {
    const election = new Election()
    let end: () => void = () => {}
    const aftermath = new Promise<void>(resolve => {
      end = resolve
    })
    const a = election.join('a', { aftermath })
    await election.pass(4_000)
    a.link.state = 'down'
    await election.pass(12_000)
    a.link.state = 'up'
    await election.pass(60_000)
    expect(a.story).toEqual(['started', 'lost'])
    expect(a.elector.trouble).toMatch(/no attempt at the lease work/)
    end()
    await election.pass(5_000)
    expect(a.story).toEqual(['started', 'lost', 'started'])
    expect(a.elector.trouble).toBeUndefined()
  })

  test('whose renewal succeeded but whose response was lost stays the leader', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    let lost = 0
    election.server.onAnswer = ({ method }) => {
      if (method !== 'PUT' || lost > 0) return
      lost++
      throw new TransportError('the answer was lost')
    }
    await election.pass(20_000)
    expect(lost).toBe(1)
    expect(a.story).toEqual(['started'])
    expect(a.elector.slowPaths).toBe(1)
  })

  test('stops at once when it sees that another holds the lease', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    await election.client.patch(Lease, name, { spec: { holderIdentity: 'usurper' } })
    await election.pass(2_250)
    expect(a.story).toEqual(['started', 'lost'])
  })

  test('that was suspended for a minute may not act at its first step, before any timer fires', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(3_000)
    expect(a.mayAct).toBe(true)
    a.clock.stall(60_000)
    expect(() => a.elector.leadershipGuard()).toThrow(LeadershipLostError)
    expect(a.story).toEqual(['started', 'lost'])
  })

  test('that was suspended for a minute and had nothing to do does not renew its old term', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(3_000)
    a.clock.stall(60_000)
    await a.clock.advance(0)
    expect(a.story.slice(0, 2)).toEqual(['started', 'lost'])
  })
})

describe('end', () => {
  test('releases the lease, and another acquires it at once', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    const b = election.join('b')
    await election.pass(10_000)
    await a.elector.end({ release: true })
    expect(a.mayAct).toBe(false)
    expect((await election.lease).spec).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1 })
    await election.pass(250)
    expect(b.story).toEqual(['started'])
    expect((await election.lease).spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 })
  })

  test('releases the lease also after another writer changed the record', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    await election.client.patch(Lease, name, { metadata: { labels: { 'example.com/touched': 'yes' } } })
    await a.elector.end({ release: true })
    expect((await election.lease).spec.holderIdentity).toBe('')
    expect((await election.lease).metadata.labels).toEqual({ 'example.com/touched': 'yes' })
  })

  test('does not touch a lease that another has acquired', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    await election.client.patch(Lease, name, { spec: { holderIdentity: 'b' } })
    const { metadata } = await election.lease
    await a.elector.end({ release: true })
    expect((await election.lease).metadata.version).toBe(metadata.version)
  })

  test('leaves the lease to expire if the work has not ended', async () => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(250)
    await a.elector.end({ release: false })
    expect(a.mayAct).toBe(false)
    expect((await election.lease).spec.holderIdentity).toBe('a')
    const b = election.join('b')
    await election.pass(14_000)
    expect(b.story).toEqual([])
    await election.pass(5_000)
    expect(b.story).toEqual(['started'])
  })

  test.each(['down', 'silent'] as const)('is bounded if the server is away (%s)', async state => {
    const election = new Election()
    const a = election.join('a')
    await election.pass(3_000)
    a.link.state = state
    const ended = a.elector.end({ release: true })
    let over = false
    void ended.then(() => {
      over = true
    })
    await a.clock.advance(2_000)
    expect(over).toBe(true)
    expect(a.clock.pendingTimers).toBe(0)
  })

  test('of a standby prevents it from acquiring the lease, even at that moment', async () => {
    const election = new Election()
    await election.client.create(Lease, {
      metadata: { name },
      spec: { holderIdentity: 'gone', leaseDurationSeconds: 5 },
    })
    const a = election.join('a')
    await election.pass(1_000)
    let answer: () => void = () => {}
    let held = false
    election.server.onAnswer = ({ method }) => {
      if (method !== 'PUT') return
      held = true
      return new Promise<void>(resolve => {
        answer = resolve
      })
    }
    for (let waited = 0; waited < 12_000 && !held; waited += 250) await election.pass(250)
    expect(held).toBe(true)
    a.elector.withdraw()
    election.server.onAnswer = () => {}
    answer()
    await election.pass(1_000)
    expect(a.story).toEqual([])
    expect(a.mayAct).toBe(false)
    await a.elector.end({ release: true })
    expect((await election.lease).spec.holderIdentity).toBe('')
    expect(a.story).toEqual([])
  })
})

describe('the options', () => {
  test.each([
    ['a lease that is not longer than the deadline', { leaseDurationMs: 10_000 }],
    ['a deadline that is not longer than a pause', { renewDeadlineMs: 2_400 }],
    ['a lease that is not in whole seconds', { leaseDurationMs: 15_500 }],
    ['no retry period', { retryPeriodMs: 0 }],
    ['a negative deadline', { renewDeadlineMs: -1 }],
    ['NaN', { leaseDurationMs: Number.NaN }],
  ])('reject %s', (_, figures) => {
    expect(() => readLeaderElectionOptions({ lease: name, ...figures })).toThrow(RangeError)
  })

  test('reject an empty identity and an invalid lease name', () => {
    expect(() => readLeaderElectionOptions({ lease: name, identity: '' })).toThrow(TypeError)
    expect(() => readLeaderElectionOptions({ lease: 'Not a name' })).toThrow(TypeError)
  })

  test('default to the times of client-go and a unique identity', () => {
    const first = readLeaderElectionOptions({ lease: name })
    expect(first).toMatchObject({ leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 })
    expect(first.identity).not.toBe(readLeaderElectionOptions({ lease: name }).identity)
  })
})
