import { describe, expect, it } from 'vitest'
import { soak } from './soak/run-soak.ts'
import { stores } from './support/worlds.ts'

/** Each trouble once, for a short time; `npm run soak` runs longer. */
const durationMs = 10_000

describe.each(stores)('a soak of the %s store with every trouble', store => {
  it('loses, repeats and corrupts no event, and finds the one that was dropped on purpose', {
    timeout: 600_000,
  }, async () => {
    const seed = Math.floor(Math.random() * 2 ** 32)
    const { violations, planted, figures, troubles } = await soak({ store, seed, durationMs })
    const message = `seed ${seed}`
    expect(violations, message).toEqual([])
    expect(planted.found, message).toMatchObject([{ guarantee: 'reliable' }])
    expect(planted.found[0]?.message).toContain(`of version ${planted.version} `)
    // Proves that the load was large enough, also on a busy machine.
    expect(figures.acknowledged, message).toBeGreaterThan(20)
    expect(figures.connections, message).toBeGreaterThan(100)
    expect(figures.lists, message).toBeGreaterThan(5)
    expect(troubles).toHaveProperty('kill the server')
    expect(troubles).toHaveProperty('stop the server')
    if (store === 'etcd') {
      expect(troubles).toHaveProperty('kill etcd')
      expect(figures.expired, message).toBeGreaterThan(0)
    }
  })
})
