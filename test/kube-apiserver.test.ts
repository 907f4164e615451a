import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { differing } from './soak/e2e-specs.ts'
import { differences } from './support/differences.ts'
import { Replays } from './support/replays.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

const replays = new Replays(differences)
let users: Users<'admin' | 'bob' | 'eve'>
let world: SharedWorld

beforeAll(async () => {
  users = await Users.make({ admin: ['setpoint:admins'], bob: ['team'], eve: ['others'] })
  // The recorded kube-apiserver has no controllers either.
  world = await startSharedWorld('embedded', ['recorded-plugin'], {
    args: [...users.args, '--role', 'apiserver'],
  })
})
afterAll(async () => {
  await world?.end()
  await users?.remove()
})

describe.each(['apply', 'writes', 'reads', 'kinds', 'access'])('responses of kube-apiserver: %s', topic => {
  replays.declare(topic, {
    url: () => world.server.url,
    tokenOf: user => (users.has(user) ? users.tokenOf(user) : 'unknown'),
  })
})

describe('differences from kube-apiserver', () => {
  it('are of recorded requests', () => {
    expect(replays.unknown).toEqual([])
  })

  it.each([...differences, ...differing])('are documented in $page: $says', ({ says, page }) => {
    const text = readFileSync(new URL(`../docs/reference/${page}`, import.meta.url), 'utf8')
    expect(text.replace(/\s+/g, ' ')).toContain(says)
  })
})
