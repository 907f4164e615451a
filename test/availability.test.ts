import { laterRevision } from '@setpoint/controller-runtime/api'
import { afterEach, expect, it } from 'vitest'
import { ControlPlane, leaseName } from './support/control-plane.ts'
import { leaderOf } from './support/etcd.ts'
import { itemsOf, leasesOf, turnsOf } from './support/kinds.ts'
import { Load } from './support/load.ts'
import { markOf, recordedListOf } from './support/record.ts'
import { RecordedWatcher } from './support/recorded-watcher.ts'
import { tenuresOf } from './support/tenures.ts'
import { RunRecorder } from './support/watch-record/index.ts'
import { eventually } from './support/worlds.ts'

/** The test restarts everything while other tests run. */
const patience = 600_000
const takeoverMs = 180_000

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

it('killing the etcd leader and then a server loses no acknowledged write, loses or duplicates no event, and leaves one active process of controllers', {
  timeout: patience,
}, async () => {
  const plane = await ControlPlane.start({ unsafeNoFsync: true })
  cleanups.push(() => plane.end())
  const { members, servers } = plane
  const recorder = new RunRecorder({ markOf })
  const watch = (name: string, into: RunRecorder, address: string, url: () => string) => {
    const watcher = new RecordedWatcher({ url, address, recorder: into.watcher(name, { witness: true }) })
    cleanups.push(() => watcher.stop())
    return watcher
  }
  const items = itemsOf(plane.api()).path
  const watchers = [
    ...servers.map((server, n) => watch(`on server ${n}`, recorder, items, () => server.url)),
    ...servers.map((_, n) => watch(`on each in turn ${n}`, recorder, items, () => plane.api().url)),
  ]
  const leaseLog = new RunRecorder({ otherWriters: true })
  const turnsLog = new RunRecorder({ otherWriters: true })
  const lease = leasesOf(plane.api()).at(leaseName)
  const turns = turnsOf(plane.api()).path
  const controllersWatchers = [
    watch('the lease', leaseLog, lease, () => plane.api().url),
    watch('what controllers write', turnsLog, turns, () => plane.api().url),
  ]
  await Promise.all([...watchers, ...controllersWatchers].map(watcher => watcher.synced()))

  const load = new Load(recorder, () => plane.api(), 4)
  await load.progress(100)
  const leader = await leaderOf(members)
  await leader.kill()
  await load.progress(100)
  await leader.restart()
  await load.progress(50)

  // Kills the leader's server for long enough that the other process takes over.
  await servers[0]?.kill('SIGKILL')
  await eventually(() => {
    const { writers } = tenuresOf(leaseLog.log, turnsLog.log)
    expect(writers).toEqual(new Set(['a', 'b']))
  }, takeoverMs)
  await servers[0]?.restart()
  await load.progress(50)
  // Both servers serve again.
  await Promise.all(
    servers.map(({ url }) =>
      eventually(async () => expect((await fetch(`${url}/readyz`)).status).toBe(200), takeoverMs),
    ),
  )
  await load.stop()

  const { acknowledged } = recorder
  const { version, objects } = await eventually(async () => recordedListOf(await plane.api().get(items)))
  recorder.listed({ name: 'the last list', selects: () => true, version, objects, acknowledged })
  const upTo = laterRevision(version, acknowledged)
  await Promise.all(watchers.map(watcher => watcher.catchUp(upTo)))
  expect(recorder.check({ upTo })).toEqual([])
  await Promise.all(controllersWatchers.map(watcher => watcher.catchUp(upTo)))
  const tenures = tenuresOf(leaseLog.log, turnsLog.log)
  expect(tenures.stray).toEqual([])
  expect(tenures.changes).toBeGreaterThan(0)
  expect(load.outcomes.acknowledged).toBeGreaterThanOrEqual(300)
})
