import { expect, it } from 'vitest'
import { humanDuration } from './human-duration.ts'

const s = 1_000
const m = 60 * s
const h = 60 * m
const d = 24 * h
const y = 365 * d

// The first ten are the cases of Kubernetes' own test.
it.each([
  [s, '1s'],
  [70 * s, '70s'],
  [190 * s, '3m10s'],
  [70 * m, '70m'],
  [47 * h, '47h'],
  [49 * h, '2d1h'],
  [8 * d + 2 * h, '8d'],
  [367 * d, '367d'],
  [2 * y + 25 * h, '2y1d'],
  [8 * y + 2 * h, '8y'],
  [-2 * s, '<invalid>'],
  [-2 * s + 1, '0s'],
  [-1, '0s'],
  [0, '0s'],
  [119_999, '119s'],
  [2 * m, '2m'],
  [2 * m + s, '2m1s'],
  [10 * m - 1, '9m59s'],
  [10 * m, '10m'],
  [10 * m + s, '10m'],
  [3 * h - 1, '179m'],
  [3 * h, '3h'],
  [3 * h + m, '3h1m'],
  [8 * h - 1, '7h59m'],
  [8 * h + m, '8h'],
  [2 * d - 1, '47h'],
  [2 * d, '2d'],
  [8 * d - 1, '7d23h'],
  [8 * d, '8d'],
  [2 * y - 1, '729d'],
  [2 * y, '2y'],
  [8 * y - 1, '7y364d'],
  [9 * y, '9y'],
])('%d ms are %s', (ms, text) => {
  expect(humanDuration(ms)).toBe(text)
})
