import { expect, test } from 'vitest'
import { simulate } from './run-simulation.ts'

/** Half of it with short plans, half with long ones. */
const minutes = Number(process.env.SIMULATION_MINUTES ?? 10) / 2

test.each([
  { of: 'short plans', options: [] },
  { of: 'long plans', options: ['--steps', '1000'] },
])(
  `no judge complains about ${minutes} minutes of random $of`,
  async ({ options }) => {
    // Other tests run meanwhile.
    const output = await simulate('--minutes', String(minutes), '--jobs', '1', ...options)
    process.stdout.write(output)
    expect(output).toMatch(/the first seed is \d+/)
  },
  4 * minutes * 60_000 + 300_000,
)
