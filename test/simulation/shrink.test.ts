import { expect, test } from 'vitest'
import { shrink } from './shrink.ts'

const items = Array.from({ length: 40 }, (_, n) => n)
const needs = (...needed: number[]) => {
  let runs = 0
  const fails = async (part: readonly number[]) => {
    runs++
    return needed.every(each => part.includes(each))
  }
  return { fails, runs: () => runs }
}

test('what is not needed for the failure is left out', async () => {
  expect(await shrink(items, needs(3, 17, 39).fails)).toEqual([3, 17, 39])
  expect(await shrink(items, needs(...items).fails)).toEqual(items)
  expect(await shrink(items, needs().fails)).toEqual([])
})

test('an item that only another one needed goes too', async () => {
  const fails = async (part: readonly number[]) => part.includes(5) && (!part.includes(9) || part.includes(2))
  expect(await shrink(items, fails)).toEqual([5])
})

test('shrinking ends after a number of tries, with a part that fails', async () => {
  const { fails, runs } = needs(3, 17)
  const rest = await shrink(items, fails, 5)
  expect(runs()).toBeLessThanOrEqual(5)
  expect(rest).toEqual(expect.arrayContaining([3, 17]))
})
