import { silentLogger } from '@setpoint/controller-runtime'
import { selectsEverything } from '@setpoint/controller-runtime/api'
import { expect, it } from 'vitest'
import { openRooms, thing } from '../../../test/support/rooms.ts'
import { ConsistencyCheck, HistoryReplay } from '../cache/index.ts'
import { ModelRegistry } from '../model/model-registry.ts'
import { ServedModel } from '../model/served-model.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import { lines, WatchHub, watchDefaults } from '../watch/index.ts'
import { Metrics } from './metrics.ts'

async function open() {
  const rooms = await openRooms()
  const { storage, follower, gate } = rooms
  const models = new ModelRegistry()
  models.add(rooms.served)
  const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log: silentLogger })
  const consistency = new ConsistencyCheck({ storage, follower, log: silentLogger })
  const metrics = new Metrics({ models, follower, hub, consistency })
  /** The lines of one metric, without their common prefix. */
  const linesOf = async (name: string) =>
    (await metrics.text())
      .split('\n')
      .filter(line => new RegExp(`^${name}[ {]`).test(line))
      .map(line => line.slice(name.length))
  return { rooms, hub, consistency, metrics, linesOf }
}

it('a watch that is closed as too slow is counted as such and is no longer open', async () => {
  const { rooms, hub, linesOf } = await open()
  await using _ = rooms
  const { cache, gate, registry, served } = rooms
  const { group, version, plural } = served.model
  const labels = `group="${group}",version="${version}",resource="${plural}"`
  const watch = { key: undefined, selector: selectsEverything, after: undefined, lifetimeMs: 60_000 }
  const request = { ...watch, initialEvents: false, bookmarks: false }
  const ends: string[] = []
  const end = ({ reason }: { reason: string }) => ends.push(reason)
  const slow = { codec: lines, backlog: 0, write() {}, end }
  hub.open(cache, request, slow, await gate.pass())
  hub.open(cache, request, { ...slow, backlog: 0 }, await gate.pass())
  slow.backlog = watchDefaults.backlogBytes + 1
  await registry.create(served, thing('a'), defaultWriteOptions)
  await gate.pass()
  await new Promise(resolve => setImmediate(resolve))
  expect(ends).toHaveLength(1)
  expect(await linesOf('apiserver_terminated_watchers_total')).toEqual([`{${labels}} 1`])
  expect(await linesOf('apiserver_longrunning_requests')).toEqual([`{verb="WATCH",${labels}} 1`])
  hub.close()
  expect(await linesOf('apiserver_terminated_watchers_total')).toEqual([`{${labels}} 1`])
  expect(await linesOf('apiserver_longrunning_requests')).toEqual([`{verb="WATCH",${labels}} 0`])
})

it('the buckets of durations are cumulative, include their bound, and the last one counts everything', async () => {
  const { rooms, metrics, linesOf } = await open()
  await using _ = rooms
  for (const seconds of [0.0005, 0.005, 0.006, 61])
    metrics.requests.answered(undefined, '', 'GET', 200, seconds)
  const labels = 'verb="GET",group="",version="",resource=""'
  const buckets = await linesOf('apiserver_request_duration_seconds_bucket')
  expect(buckets.slice(0, 4)).toEqual([
    `{${labels},le="0.001"} 1`,
    `{${labels},le="0.005"} 2`,
    `{${labels},le="0.025"} 3`,
    `{${labels},le="0.05"} 3`,
  ])
  expect(buckets.slice(-2)).toEqual([`{${labels},le="60"} 3`, `{${labels},le="+Inf"} 4`])
  expect(await linesOf('apiserver_request_duration_seconds_count')).toEqual([`{${labels}} 4`])
  expect(await linesOf('apiserver_request_duration_seconds_sum')).toEqual([`{${labels}} 61.0115`])
})

it('a kind keeps its series when a reload replaces its model', async () => {
  const { rooms, metrics, linesOf } = await open()
  await using _ = rooms
  const { model } = rooms.served
  for (const served of [rooms.served, new ServedModel(model)])
    metrics.requests.answered(served, model.version, 'GET', 200, 0.01)
  const labels = `verb="GET",group="${model.group}",version="${model.version}",resource="${model.plural}"`
  expect(await linesOf('apiserver_request_total')).toEqual([`{${labels},code="200"} 2`])
  expect(await linesOf('apiserver_request_duration_seconds_count')).toEqual([`{${labels}} 2`])
})

it('reports the progress of the log follower and the results of comparing and rebuilding the caches', async () => {
  const { rooms, consistency, linesOf } = await open()
  await using _ = rooms
  const { cache, follower, gate, registry, served } = rooms
  const { group, plural } = served.model
  const labels = `group="${group}",resource="${plural}"`
  for (const name of ['a', 'b']) await registry.create(served, thing(name), defaultWriteOptions)
  const version = await gate.pass()
  expect(await linesOf('apiserver_watch_cache_resource_version')).toEqual([`{${labels}} ${version}`])
  expect(await linesOf('apiserver_watch_cache_events_received_total')).toEqual([`{${labels}} 2`])
  const { signal } = new AbortController()
  await consistency.check(cache, signal)
  expect(await linesOf('apiserver_storage_consistency_checks_total')).toEqual(
    [
      ['success', 1],
      ['failure', 0],
      ['error', 0],
    ].map(([status, count]) => `{resource="${plural}.${group}",status="${status}"} ${count}`),
  )
  follower.distrust(cache)
  expect(await linesOf('apiserver_watch_cache_resource_version')).toEqual([])
  expect(await linesOf('setpoint_cache_rebuilds_total')).toEqual([`{${labels}} 1`])
})
