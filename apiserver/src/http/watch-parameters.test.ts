import { afterEach, expect, it, vi } from 'vitest'
import { openRooms, type Rooms, testModel } from '../../../test/support/rooms.ts'
import { readWatchRequest } from './watch-parameters.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Returns the minutes that a watch with this query may last. */
function minutesOf({ cache }: Rooms, query: string): number {
  const { group, version } = testModel
  const path = { group, version, namespace: undefined, name: undefined }
  const request = readWatchRequest(cache, path, new URLSearchParams(query), { bookmarksByDefault: true })
  return request.lifetimeMs / 60_000
}

it('a watch ends after timeoutSeconds, and without it at random after 30 to 60 minutes', async () => {
  await using rooms = await openRooms()
  expect(minutesOf(rooms, 'timeoutSeconds=90')).toBe(1.5)
  const random = vi.spyOn(Math, 'random')
  for (const query of ['', 'timeoutSeconds=0', 'timeoutSeconds=']) {
    random.mockReturnValue(0)
    expect(minutesOf(rooms, query)).toBe(30)
    random.mockReturnValue(0.5)
    expect(minutesOf(rooms, query)).toBe(45)
    random.mockReturnValue(1 - Number.EPSILON)
    expect(minutesOf(rooms, query)).toBeCloseTo(60)
  }
})
