import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { definitionDifferences } from './support/definition-differences.ts'
import { Replays } from './support/replays.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

const topics = [
  ...['definitions', 'definition-schemas', 'definition-rules'],
  ...['definition-objects', 'definition-writes', 'definition-reads'],
]
const replays = new Replays(definitionDifferences, { isExact: true })
let users: Users<'admin'>

beforeAll(async () => {
  users = await Users.make({ admin: ['setpoint:admins'] })
})
afterAll(() => users?.remove())

describe.each(stores)('responses of kube-apiserver, with the store %s', store => {
  let world: SharedWorld

  beforeAll(async () => {
    // The recorded kube-apiserver has no controllers either.
    world = await startSharedWorld(store, [], { args: [...users.args, '--role', 'apiserver'] })
  })
  afterAll(() => world?.end())

  describe.each(topics)('%s', topic => {
    replays.declare(topic, { url: () => world.server.url, tokenOf: () => users.tokenOf('admin') })
  })
})

describe('differences from kube-apiserver', () => {
  it('are of recorded requests', () => {
    expect(replays.unknown).toEqual([])
  })

  it.each(definitionDifferences)('are documented in $page: $says', ({ says, page }) => {
    const text = readFileSync(new URL(`../docs/reference/${page}`, import.meta.url), 'utf8')
    expect(text.replace(/\s+/g, ' ')).toContain(says)
  })
})
