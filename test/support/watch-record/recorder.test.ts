import {
  ApiError,
  type BookmarkObject,
  initialEventsEndAnnotation,
  toRevision,
  type WatchEvent,
} from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { gadget } from '../sdk/sample-models.ts'
import { RunRecorder } from './index.ts'

const at = toRevision

function bookmark(version: number, endsInitialEvents = false): WatchEvent {
  const metadata: BookmarkObject['metadata'] = { version: String(version), resourceVersion: String(version) }
  if (endsInitialEvents) metadata.annotations = { [initialEventsEndAnnotation]: 'true' }
  return { type: 'BOOKMARK', object: { apiVersion: 'demo.example.com/v1', kind: 'Gadget', metadata } }
}

const added = (name: string, version: number): WatchEvent => ({
  type: 'ADDED',
  object: gadget(name, version),
})
const expired: WatchEvent = { type: 'ERROR', object: new ApiError('Expired', 'list again').toStatus() }

describe('a run recorder', () => {
  it('records events in order, with the versions acknowledged and compacted before', () => {
    const recorder = new RunRecorder()
    const watcher = recorder.watcher('w', { witness: true })
    const first = watcher.connects('present')
    first.received(bookmark(3, true))
    recorder.wrote({ verb: 'create', name: 'a', outcome: { kind: 'acknowledged', version: at(4) } })
    first.received(added('a', 4))
    recorder.compacts(at(9))
    recorder.compacts(at(7))
    const second = watcher.connects(at(4))
    second.received(bookmark(8))
    second.received(expired)
    expect(recorder.acknowledged).toBe(4)
    expect(recorder.log.watchers).toMatchObject([{ name: 'w', witness: true }])
    expect(recorder.log.watchers[0]?.connections).toEqual([
      {
        start: 'present',
        acknowledged: 0,
        events: [
          { type: 'BOOKMARK', version: 3, endsInitialEvents: true },
          { type: 'ADDED', name: 'a', version: 4, object: gadget('a', 4) },
        ],
      },
      {
        start: 4,
        acknowledged: 4,
        events: [
          { type: 'BOOKMARK', version: 8, endsInitialEvents: false },
          { type: 'ERROR', code: 410, message: 'list again', compacted: 9 },
        ],
      },
    ])
    expect(recorder.check({ upTo: at(8) })).toEqual([])
  })

  it('stores equal objects once', () => {
    const recorder = new RunRecorder()
    const object = gadget('a', 4)
    const connections = ['v', 'w'].map(name => recorder.watcher(name, { witness: true }).connects('present'))
    recorder.wrote({ verb: 'create', name: 'a', outcome: { kind: 'acknowledged', version: at(4), object } })
    for (const connection of connections) {
      connection.received(bookmark(3, true))
      connection.received(added('a', 4))
    }
    recorder.listed({
      name: 'list',
      selects: () => true,
      version: at(4),
      objects: [gadget('a', 4)],
      acknowledged: recorder.acknowledged,
    })
    const { watchers, lists } = recorder.log
    const told = watchers.map(({ connections }) => connections[0]?.events[1])
    for (const event of told) expect(event?.type === 'ADDED' && event.object).toBe(object)
    expect(lists[0]?.objects[0]).toBe(object)
    expect(recorder.check()).toEqual([])
  })

  it('rejects an event without a version', () => {
    const connection = new RunRecorder().watcher('w').connects('present')
    const object = gadget('a', 4)
    object.metadata.version = ''
    expect(() => connection.received({ type: 'ADDED', object })).toThrow(RangeError)
  })
})
