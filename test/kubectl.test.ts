import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gadgetsOf } from './support/kinds.ts'
import { kubectl } from './support/kubectl.ts'
import { startWorld, type World } from './support/worlds.ts'

describe('kubectl, with a plugin that has kinds and routes', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld('embedded', ['demo-plugin'])
  })
  afterAll(() => world?.end())

  it('lists the kinds and takes no route for one', async () => {
    const kinds = await kubectl(world.server.url, 'api-resources', '--no-headers')
    expect(kinds).toMatch(/^gadgets\s+demo\.example\.com\/v1\s+false\s+Gadget$/m)
    expect(kinds).not.toContain('api.demo.example.com')
  })

  it('lists the group versions of routes', async () => {
    const versions = await kubectl(world.server.url, 'api-versions')
    expect(versions.split('\n')).toContain('console.api.demo.example.com/v1')
  })

  it('gets objects of a kind whose plural is also a route', async () => {
    await gadgetsOf(world.api).create('printed', { email: 'printed@example.com' })
    expect(await kubectl(world.server.url, 'get', 'gadgets', '--output', 'name')).toContain(
      'gadget.demo.example.com/printed\n',
    )
  })
})
