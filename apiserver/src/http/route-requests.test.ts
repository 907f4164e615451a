import { FakeClock } from '@setpoint/controller-runtime/testing'
import { expect, it } from 'vitest'
import { RouteRequests } from './route-requests.ts'

const never = new AbortController().signal

function drain(requests: RouteRequests, signal = never) {
  const clock = new FakeClock()
  let isDrained = false
  const drained = requests.drained(15_000, signal, clock).then(() => {
    isDrained = true
  })
  return { clock, drained, isDrained: () => isDrained }
}

it('are drained when the last one has its response', async () => {
  const requests = new RouteRequests()
  requests.begin()
  requests.begin()
  const { clock, drained, isDrained } = drain(requests)
  requests.end()
  await clock.advance(14_999)
  expect(isDrained()).toBe(false)
  requests.end()
  await drained
  expect(clock.pendingTimers).toBe(0)
})

it('are given up after the limit', async () => {
  const requests = new RouteRequests()
  requests.begin()
  const { clock, drained } = drain(requests)
  await clock.advance(15_000)
  await drained
})

it('are given up when the plugin stops', async () => {
  const requests = new RouteRequests()
  requests.begin()
  const stopping = new AbortController()
  const { clock, drained } = drain(requests, stopping.signal)
  stopping.abort()
  await drained
  expect(clock.pendingTimers).toBe(0)
})

it('are drained at once if there are none', async () => {
  const { clock, drained } = drain(new RouteRequests())
  await drained
  expect(clock.pendingTimers).toBe(0)
})
