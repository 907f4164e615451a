import { expect, it } from 'vitest'
import { encodeAll, errorEvent, lines, type WatchSink, type WireEvent } from '../watch/index.ts'
import type { ObjectView } from './object-view.ts'
import { ViewSink } from './view-sink.ts'

/** A view that marks what it shows, and counts how often. */
function markedView(): ObjectView & { shown: number } {
  const list = {
    head: { apiVersion: '', kind: '' },
    fields: {},
    itemsField: 'items',
    isQuick: false,
    itemStart: '',
  } as const
  return {
    key: 'marked',
    shown: 0,
    list: { ...list, item: wire => wire },
    object(wire) {
      this.shown++
      return Buffer.from(`["first",${wire}]`)
    },
    event(wire) {
      this.shown++
      return Buffer.from(`["later",${wire}]`)
    },
  }
}

function openSink(view: ObjectView): { sink: WatchSink; written: () => string[] } {
  const written: string[] = []
  const inner = {
    codec: lines,
    backlog: 0,
    write: (bytes: Buffer) => written.push(String(bytes)),
    end: () => {},
  }
  return { sink: new ViewSink(inner, view), written: () => written.join('').trimEnd().split('\n') }
}

const event = (object: number): WireEvent => ({
  type: 'ADDED',
  object: Buffer.from(`${object}`),
  version: undefined,
})

/** Writes events as an audience does: encoded once for all sinks with equal codecs. */
function deliver(events: readonly WireEvent[], ...sinks: readonly WatchSink[]): void {
  const shared = new Map<string, Buffer>()
  for (const sink of sinks) {
    const { codec } = sink
    const bytes = shared.get(codec.key) ?? encodeAll(codec, events)
    shared.set(codec.key, bytes)
    sink.write(bytes)
  }
}

it('the first event of each sink has another form than the later ones, also in one write', () => {
  const { sink, written } = openSink(markedView())
  deliver([event(1), event(2)], sink)
  deliver([event(3)], sink)
  expect(written()).toEqual([
    '{"type":"ADDED","object":["first",1]}',
    '{"type":"ADDED","object":["later",2]}',
    '{"type":"ADDED","object":["later",3]}',
  ])
})

it('an event is encoded once for all sinks of a view', () => {
  const view = markedView()
  const opened = Array.from({ length: 3 }, () => openSink(view))
  const sinks = opened.map(({ sink }) => sink)
  deliver([event(1)], ...sinks)
  deliver([event(2)], ...sinks)
  expect(view.shown).toBe(2)
  const late = openSink(view)
  deliver([event(3)], ...sinks, late.sink)
  expect(view.shown).toBe(4)
  expect(late.written()).toEqual(['{"type":"ADDED","object":["first",3]}'])
  for (const { written } of opened) expect(written()).toHaveLength(3)
})

it('an error stays as it is', () => {
  const view = markedView()
  const { sink, written } = openSink(view)
  const error = errorEvent({
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: '',
    reason: 'Expired',
    code: 410,
  })
  deliver([error], sink)
  expect([view.shown, written()]).toEqual([0, [expect.stringContaining('"kind":"Status"')]])
})
