import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { linkedSignal } from './linked-signal.ts'

const sourcesOf = (count: number) => Array.from({ length: count }, () => new AbortController())
const listeners = (sources: readonly AbortController[]) =>
  sources.map(({ signal }) => getEventListeners(signal, 'abort').length)

test.each([0, 1])('a linked signal is aborted with source %i, for its reason', which => {
  const sources = sourcesOf(2)
  const { signal } = linkedSignal(undefined, ...sources.map(source => source.signal))
  const reason = new Error('enough')
  sources[which]?.abort(reason)
  sources[1 - which]?.abort(new Error('too late'))
  expect(signal.reason).toBe(reason)
  expect(listeners(sources)).toEqual([0, 0])
})

test('a signal that is linked to an aborted one is aborted from the start', () => {
  const sources = sourcesOf(1)
  const reason = new Error('over')
  expect(linkedSignal(sources[0]?.signal, AbortSignal.abort(reason)).signal.reason).toBe(reason)
  expect(listeners(sources)).toEqual([0])
})

test('aborting a linked signal does not abort its sources', () => {
  const sources = sourcesOf(2)
  const linked = linkedSignal(...sources.map(({ signal }) => signal))
  linked.abort('mine')
  expect(linked.signal.reason).toBe('mine')
  expect(sources.map(({ signal }) => signal.aborted)).toEqual([false, false])
  expect(listeners(sources)).toEqual([0, 0])
})

test('a disposed signal follows its sources no longer, and leaves nothing in them', () => {
  const sources = sourcesOf(2)
  const linked = Array.from({ length: 20 }, () => linkedSignal(...sources.map(({ signal }) => signal)))
  expect(listeners(sources)).toEqual([20, 20])
  for (const each of linked) each.dispose()
  expect(listeners(sources)).toEqual([0, 0])
  sources[0]?.abort()
  expect(linked.some(({ signal }) => signal.aborted)).toBe(false)
})
