import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Resolves with what `npm run simulate` prints. Rejects if a judge complains, with the plan. */
async function simulate(...args: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, ['scripts/simulate.mjs', ...args], {
    cwd: root,
    maxBuffer: 2 ** 26,
  })
  return stdout
}

/** New seeds each time, unless the variable gives the first one. */
const { SEED, SIMULATION_MINUTES = '0.3' } = process.env
const from = SEED === undefined ? [] : ['--seed', SEED]

test('no judge complains about random plans', async () => {
  const seeds = process.env.SIMULATION_MINUTES === undefined ? ['--seeds', '200'] : []
  const output = await simulate(...from, ...seeds, '--minutes', SIMULATION_MINUTES)
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
test.each(readdirSync(found))('the plan %s, which has failed before, passes', async plan => {
  await simulate('--plan', `${found}/${plan}`)
})
