import { describe, expect, test } from 'vitest'
import { pageFields, pageWindow } from './page.ts'

describe('the page fields', () => {
  test.each([
    [
      'of a first page',
      1,
      20,
      137,
      { totalPages: 7, first: true, last: false, hasNext: true, hasPrevious: false },
    ],
    [
      'of a middle page',
      3,
      20,
      137,
      { totalPages: 7, first: false, last: false, hasNext: true, hasPrevious: true },
    ],
    [
      'of the last page',
      7,
      20,
      137,
      { totalPages: 7, first: false, last: true, hasNext: false, hasPrevious: true },
    ],
    [
      'past the end',
      9,
      20,
      137,
      { totalPages: 7, first: false, last: true, hasNext: false, hasPrevious: true },
    ],
    [
      'of a full last page',
      2,
      5,
      10,
      { totalPages: 2, first: false, last: true, hasNext: false, hasPrevious: true },
    ],
    [
      'of the only page',
      1,
      20,
      3,
      { totalPages: 1, first: true, last: true, hasNext: false, hasPrevious: false },
    ],
    ['of nothing', 1, 20, 0, { totalPages: 0, first: true, last: true, hasNext: false, hasPrevious: false }],
    [
      'of a later page of nothing',
      4,
      20,
      0,
      { totalPages: 0, first: true, last: true, hasNext: false, hasPrevious: false },
    ],
  ])('%s say where it stands', (_, page, size, total, fields) => {
    expect(pageFields({ page, size }, total)).toEqual({ page, size, total, ...fields })
  })

  test('without a size are those of one page with all items, and empty pages after it', () => {
    expect(pageFields({ page: 1, size: undefined }, 137)).toMatchObject({
      page: 1,
      size: 137,
      totalPages: 1,
      first: true,
      last: true,
    })
    expect(pageFields({ page: 2, size: undefined }, 137)).toMatchObject({
      page: 2,
      size: 137,
      totalPages: 1,
      last: true,
      hasNext: false,
      hasPrevious: true,
    })
    expect(pageFields({ page: 1, size: undefined }, 0)).toMatchObject({
      size: 0,
      totalPages: 0,
      first: true,
      last: true,
    })
  })
})

test('the window of a page is within the result, and empty past its end', () => {
  expect(pageWindow({ page: 1, size: 20 }, 137)).toEqual({ offset: 0, count: 20 })
  expect(pageWindow({ page: 7, size: 20 }, 137)).toEqual({ offset: 120, count: 17 })
  expect(pageWindow({ page: 8, size: 20 }, 137)).toMatchObject({ count: 0 })
  expect(pageWindow({ page: 1, size: undefined }, 137)).toEqual({ offset: 0, count: 137 })
  expect(pageWindow({ page: 2, size: undefined }, 137)).toMatchObject({ count: 0 })
  const huge = Number.MAX_SAFE_INTEGER
  expect(pageWindow({ page: huge, size: huge }, 137)).toMatchObject({ count: 0 })
  expect(pageWindow({ page: 1, size: huge }, 137)).toEqual({ offset: 0, count: 137 })
})
