import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Webhooks } from '../fixtures/kube-apiserver/record/webhooks.js'
import type { Difference } from './differences.ts'
import { Replays } from './replays.ts'
import { Users } from './users.ts'
import { type SharedWorld, startSharedWorld, stores } from './worlds.ts'

/** Declares the tests of topics about definitions and admission, where Kubernetes decides. */
export function describeExactReplays(topics: readonly string[], differences: readonly Difference[]): void {
  const replays = new Replays(differences, { isExact: true })
  let users: Users<'admin' | 'bob' | 'eve'>
  let webhooks: Webhooks

  beforeAll(async () => {
    users = await Users.make({ admin: ['setpoint:admins'], bob: ['team'], eve: ['others'] })
    webhooks = await Webhooks.start()
  })
  afterAll(async () => {
    await webhooks?.stop()
    await users?.remove()
  })

  describe.each(stores)('responses of kube-apiserver, with the store %s', store => {
    let world: SharedWorld

    beforeAll(async () => {
      // The recorded kube-apiserver has no controllers either.
      world = await startSharedWorld(store, [], { args: [...users.args, '--role', 'apiserver'] })
    })
    afterAll(() => world?.end())

    describe.each(topics)('%s', topic => {
      replays.declare(topic, {
        url: () => world.server.url,
        tokenOf: user => (users.has(user) ? users.tokenOf(user) : 'unknown'),
        given: () => webhooks.given,
      })
    })
  })

  describe('differences from kube-apiserver', () => {
    it('are of recorded requests', () => {
      expect(replays.unknown).toEqual([])
    })

    it.each(differences)('are documented in $page: $says', ({ says, page }) => {
      const text = readFileSync(new URL(`../../docs/reference/${page}`, import.meta.url), 'utf8')
      expect(text.replace(/\s+/g, ' ')).toContain(says)
    })
  })
}
