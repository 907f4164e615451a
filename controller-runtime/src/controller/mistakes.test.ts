import { afterEach, describe, expect, test } from 'vitest'
import { type Harness, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import { type Logger, silentLogger } from '../logger.ts'
import type { Reconcile } from './reconcile.ts'
import { Rewrites, rewritesDefaults } from './rewrites.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

/** A controller of one gadget, with the warnings of its runs. */
async function reconcileWith(reconcile: Reconcile<ObjectOf<typeof Gadget>>) {
  const warnings: string[] = []
  const log: Logger = {
    ...silentLogger,
    warn: (_fields, message) => void warnings.push(message),
    child: () => log,
  }
  const harness = startHarness(Gadget, c => c.reconcile(reconcile), { log })
  harnesses.push(harness)
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  return { ...harness, warnings }
}

describe('a warning names the controller whose reconcile', () => {
  test('changes its own object in every run, once', async () => {
    const { controller, warnings } = await reconcileWith(async ({ metadata, spec }, { client }) => {
      await client.patch(Gadget, metadata.name, { spec: { size: (spec.size ?? 0) + 1 } })
    })
    await eventually(() => controller.counts.succeeded > 2 * rewritesDefaults.runs)
    expect(warnings).toEqual([expect.stringMatching(/^reconcile changes its own object in every run/)])
  })

  test('changes its own object in every run and then fails, also by its own change', async () => {
    const { controller, warnings } = await reconcileWith(
      async ({ metadata: { name, version }, spec: { size = 0 } }, { client }) => {
        await client.patch(Gadget, name, { spec: { size: size + 1 } })
        await client.patch(Gadget, name, { metadata: { version }, spec: { size } })
      },
    )
    await eventually(() => controller.counts.failed > 3 * rewritesDefaults.runs)
    expect(warnings).toContainEqual(expect.stringMatching(/^reconcile changes its own object in every run/))
    expect(warnings).toContain('reconcile failed, retrying')
  })

  test('returns before its calls have settled', async () => {
    const { controller, warnings } = await reconcileWith(async ({ metadata }, { client }) => {
      void client.get(Gadget, metadata.name)
    })
    await eventually(() => controller.counts.succeeded > 0)
    expect(warnings).toEqual([expect.stringMatching(/await them$/)])
  })

  test('takes the promise of a call for its value, and fails', async () => {
    const { warnings } = await reconcileWith(async ({ metadata }, { client }) => {
      const { size } = Reflect.get(client.get(Gadget, metadata.name), 'spec')
      expect(size).toBeDefined()
    })
    await eventually(() => warnings.includes('reconcile failed, retrying'))
    expect(warnings).toContain('reconcile has failed before its calls of the client: await them')
  })

  test('does neither if it reaches its goal in steps, and awaits its calls', async () => {
    let reached = 0
    const { client, warnings } = await reconcileWith(async ({ metadata, spec: { size = 0 } }, { client }) => {
      if (size < 5) await client.patch(Gadget, metadata.name, { spec: { size: size + 1 } })
      else reached++
    })
    for (let round = 1; round <= rewritesDefaults.runs; round++) {
      await eventually(() => reached === round)
      await client.patch(Gadget, 'a', { spec: { size: 1 } })
    }
    await eventually(() => reached > rewritesDefaults.runs)
    expect(warnings).toEqual([])
  })
})

test('the counted objects are bounded', () => {
  const rewrites = new Rewrites()
  const run = (key: string, before: number) =>
    rewrites.ended({ key, isUpdate: true, before: String(before), after: String(before + 1) })
  for (let at = 1; at < rewritesDefaults.runs; at++) expect(run('a', at)).toBe(false)
  for (let other = 0; other < rewritesDefaults.objects; other++) run(`other-${other}`, 1)
  // Forgotten: its chain begins again.
  expect(run('a', rewritesDefaults.runs)).toBe(false)
})
