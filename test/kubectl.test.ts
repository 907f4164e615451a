import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gadgetsOf } from './support/kinds.ts'
import { Kubectl } from './support/kubectl.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

describe('kubectl below a base path, with a plugin that has kinds and routes', () => {
  let world: SharedWorld
  let kubectl: Kubectl
  beforeAll(async () => {
    world = await startSharedWorld('embedded', ['demo-plugin'], { args: ['--base-path', '/x'] })
    kubectl = await Kubectl.open(undefined, '--server', world.server.url)
  })
  afterAll(async () => {
    await kubectl?.close()
    await world?.end()
  })

  it('lists the kinds and takes no route for one', async () => {
    const kinds = await kubectl.output(['api-resources', '--no-headers'])
    expect(kinds).toMatch(/^gadgets\s+demo\.example\.com\/v1\s+false\s+Gadget$/m)
    expect(kinds).not.toContain('api.demo.example.com')
  })

  it('lists the group versions of routes', async () => {
    const versions = await kubectl.output(['api-versions'])
    expect(versions.split('\n')).toContain('console.api.demo.example.com/v1')
  })

  it('gets objects of a kind whose plural is also a route', async () => {
    await gadgetsOf(world.api).create('printed', { email: 'printed@example.com' })
    expect(await kubectl.output(['get', 'gadgets', '--output', 'name'])).toContain(
      'gadget.demo.example.com/printed\n',
    )
  })

  it('finds the OpenAPI documents', async () => {
    expect(await kubectl.output(['explain', 'gadgets.spec.n'])).toMatch(/^FIELD: n <integer>/m)
    const input = JSON.stringify(gadgetsOf(world.api).body('applied', { email: 'applied@example.com' }))
    await kubectl.output(['apply', '-f', '-'], { input })
    expect((await gadgetsOf(world.api).read('applied')).spec).toEqual({ email: 'applied@example.com' })
  })
})
