import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { simulate } from './run-simulation.ts'

/** New seeds each time, unless the variable gives the first one. */
const { SEED } = process.env
const from = SEED === undefined ? [] : ['--seed', SEED]

test('no judge complains about random plans', async () => {
  const output = await simulate(...from, '--seeds', '200', '--minutes', '0.3')
  process.stdout.write(output)
  expect(output).toMatch(/the first seed is \d+/)
})

test('a seed gives the same run each time', async () => {
  const [first, second] = [await simulate('--seed', '7'), await simulate('--seed', '7')]
  expect(first).toMatch(/seed 7: \d+ operations, trace \S+/)
  expect(second).toBe(first)
})

test('a mutation of the product is found', async () => {
  const output = await simulate(
    '--mutations',
    'a deletion ignores finalizers',
    '--seed',
    '1',
    '--seeds',
    '200',
  )
  expect(output).toMatch(/^a deletion ignores finalizers: found after \d+ seeds/)
})

const found = fileURLToPath(new URL('found', import.meta.url))
test('the plans that have failed before pass', async () => {
  const plans = readdirSync(found)
  expect(plans.length).toBeGreaterThan(0)
  const output = await simulate(...plans.flatMap(plan => ['--plan', `${found}/${plan}`]))
  expect(output.match(/^seed /gm)).toHaveLength(plans.length)
})
