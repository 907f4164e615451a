import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, refusalOf } from './support/api.ts'
import { ClientWorld, settings } from './support/client-world.ts'
import { namespacesOf, placesIn } from './support/kinds.ts'
import { Kubectl } from './support/kubectl.ts'

/** Namespaces and namespaced kinds in kubectl. */

const place = (name: string, owner: string, namespace = '') => `
apiVersion: places.example.com/v1
kind: Place
metadata:
  name: ${name}
  ${namespace === '' ? '' : `namespace: ${namespace}`}
spec:
  owner: "${owner}"
`

const namespace = (name: string, labels = '') => `
apiVersion: v1
kind: Namespace
metadata:
  name: ${name}
  labels: {${labels}}
`

/** The cells of each line. Columns are separated by at least three spaces. */
const cells = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map(line => line.trimEnd().split(/ {3,}/))
const age = expect.stringMatching(/^\d+m?\d*s$/)

describe.each(settings)('kubectl $kubectl on $title', setting => {
  let world: ClientWorld
  let api: Api
  let kubectl: Kubectl
  const run = (...args: string[]) => kubectl.output(args)
  const create = (name: string, ...flags: string[]) =>
    kubectl.output(['create', ...flags, '-f', '-'], { input: namespace(name) })

  beforeAll(async () => {
    world = await ClientWorld.start(setting, ['places-plugin'])
    api = world.api
    kubectl = await Kubectl.configured(setting.kubectl, world.kubeconfig)
    for (const name of ['a', 'b']) await create(name)
  })
  afterAll(async () => {
    await kubectl?.close()
    await world?.end()
  })

  describe('namespaces', () => {
    it('are created, listed and shown with their phase', async () => {
      expect(await create('made')).toBe('namespace/made created\n')
      await expect(create('made')).rejects.toThrow('(AlreadyExists)')
      const dry = await create('dry', '--dry-run=server')
      expect(dry).toBe('namespace/dry created (server dry run)\n')
      expect(cells(await run('get', 'ns', 'made'))).toEqual([
        ['NAME', 'STATUS', 'AGE'],
        ['made', 'Active', age],
      ])
      const names = (await run('get', 'namespaces', '--output', 'name')).trimEnd().split('\n')
      expect(names).toEqual([
        ...['namespace/a', 'namespace/b', 'namespace/default', 'namespace/made', 'namespace/setpoint-system'],
      ])
      const text = await run('describe', 'namespace', 'made')
      expect(text).toMatch(/^Name: +made$/m)
      expect(text).toMatch(/^Status: +Active$/m)
    })

    it('are created from a name', async () => {
      expect(await run('create', 'namespace', 'named')).toBe('namespace/named created\n')
      expect((await namespacesOf(api).read('named')).status).toMatchObject({ phase: 'Active' })
    })

    it('are created and changed by an apply on the server', async () => {
      const apply = (team: string) =>
        kubectl.output(['apply', '--server-side', '-f', '-'], { input: namespace('served', `team: ${team}`) })
      for (const team of ['red', 'blue'])
        expect(await apply(team)).toBe('namespace/served serverside-applied\n')
      expect((await namespacesOf(api).read('served')).metadata.labels).toMatchObject({ team: 'blue' })
    })

    it('are created and changed by an apply of the client, and by an editor', async () => {
      const input = (team: string) => ({ input: namespace('applied', `team: ${team}`) })
      const apply = (team: string) => kubectl.output(['apply', '-f', '-'], input(team))
      const labels = async () => (await namespacesOf(api).read('applied')).metadata.labels
      expect(await apply('red')).toBe('namespace/applied created\n')
      expect(await apply('red')).toBe('namespace/applied unchanged\n')
      for (const flags of [[], ['--server-side', '--force-conflicts']])
        expect((await kubectl.run(['diff', ...flags, '-f', '-'], input('blue'))).stdout).toMatch(
          /^\+ +team: blue$/m,
        )
      expect(await apply('blue')).toBe('namespace/applied configured\n')
      expect(await labels()).toMatchObject({ team: 'blue' })
      const editor = join(kubectl.home, 'editor.sh')
      await writeFile(editor, '#!/bin/sh\nsed -i "s/team: blue/team: green/" "$1"\n', { mode: 0o755 })
      await kubectl.output(['edit', 'namespace', 'applied'], { env: { EDITOR: editor } })
      expect(await labels()).toMatchObject({ team: 'green' })
      await run('label', 'namespace', 'applied', 'team=grey', '--overwrite')
      expect(await labels()).toMatchObject({ team: 'grey' })
    })

    it('are emptied and removed by a deletion, which waits', async () => {
      await create('full')
      const places = placesIn(api, 'full')
      await places.create('free', {})
      await places.create('held', {}, { finalizers: ['example.com/hold'] })
      const deletion = kubectl.start(['delete', 'namespace', 'full'])
      await deletion.prints(/namespace "full" deleted/)
      expect(cells(await run('get', 'namespace', 'full'))[1]).toEqual(['full', 'Terminating', age])
      const late = await kubectl.run(['create', '-n', 'full', '-f', '-'], { input: place('late', '1') })
      expect([late.code, late.stderr]).toEqual([1, expect.stringContaining('is being terminated')])
      await api.mergePatch(places.at('held'), { metadata: { finalizers: null } })
      expect((await deletion.ended).code).toBe(0)
      refusalOf(await api.get(namespacesOf(api).at('full')), 404)
      expect((await places.list()).names).toEqual([])
    })

    it('that are permanent cannot be deleted', async () => {
      const { code, stderr } = await kubectl.run(['delete', 'namespace', 'default'])
      expect([code, stderr]).toEqual([1, expect.stringContaining('(Forbidden)')])
    })
  })

  describe('namespaced objects', () => {
    it('are listed in one namespace, or in all with a column for it', async () => {
      await placesIn(api, 'a').create('x', {})
      await placesIn(api, 'b').create('x', {})
      expect(cells(await run('get', 'places', '-n', 'a'))).toEqual([
        ['NAME', 'AGE'],
        ['x', age],
      ])
      const all = [
        ['NAMESPACE', 'NAME', 'AGE'],
        ['a', 'x', age],
        ['b', 'x', age],
      ]
      for (const flag of ['-A', '--all-namespaces'])
        expect(cells(await run('get', 'places', flag))).toEqual(all)
      expect(cells(await run('get', 'places', '-A', '--chunk-size', '1'))).toEqual(all)
      expect((await kubectl.run(['get', 'places'])).stderr).toBe('No resources found in default namespace.\n')
      const other = await kubectl.run(['get', 'place', 'x'])
      expect(other.stderr).toBe('Error from server (NotFound): places.places.example.com "x" not found\n')
      const text = await run('describe', 'place', 'x', '--namespace', 'b')
      expect(text).toMatch(/^Namespace: +b$/m)
      expect(await run('delete', 'place', 'x', '-n', 'a')).toMatch(/^place\.places\.example\.com "x" deleted/)
      expect((await placesIn(api, 'b').list()).names).toEqual(['x'])
      await run('delete', 'places', '--all', '-n', 'b')
      expect((await placesIn(api, 'b').list()).names).toEqual([])
    })

    it('are watched in all namespaces', async () => {
      const watch = kubectl.start(['get', 'places', '-A', '--watch'])
      try {
        await placesIn(api, 'a').create('w', {})
        await watch.prints(/a +w/)
        await placesIn(api, 'b').create('w', {})
        expect(cells(await watch.prints(/b +w.*\n/))).toEqual([
          ['NAMESPACE', 'NAME', 'AGE'],
          ['a', 'w', age],
          ['b', 'w', age],
        ])
      } finally {
        await watch.stop()
      }
    })

    it.each([
      ['by the client', [], ['created', 'configured', 'unchanged']],
      ['by the server', ['--server-side'], Array(3).fill('serverside-applied')],
    ])('are applied %s, in the namespace of the flag or of the manifest', async (_, flags, words) => {
      const name = flags.length === 0 ? 'applied' : 'served'
      const apply = (text: string, ...more: string[]) =>
        kubectl.output(['apply', ...flags, ...more, '-f', '-'], { input: text })
      const told: string[] = []
      for (const owner of ['1', '2', '2']) told.push(await apply(place(name, owner), '-n', 'a'))
      expect(told).toEqual(words.map((word: string) => `place.places.example.com/${name} ${word}\n`))
      await apply(place(name, '3', 'b'))
      expect((await placesIn(api, 'a').read(name)).spec).toEqual({ owner: '2' })
      expect((await placesIn(api, 'b').read(name)).spec).toEqual({ owner: '3' })
      const crossed = await kubectl.run(['apply', ...flags, '-n', 'a', '-f', '-'], {
        input: place(name, '4', 'b'),
      })
      expect([crossed.code, crossed.stderr]).toEqual([1, expect.stringContaining('does not match')])
      const nowhere = await kubectl.run(['apply', ...flags, '-n', 'nowhere', '-f', '-'], {
        input: place(name, '1'),
      })
      expect([nowhere.code, nowhere.stderr]).toEqual([
        1,
        expect.stringContaining('namespaces "nowhere" not found'),
      ])
      const changed = await kubectl.run(['diff', ...flags, '-n', 'a', '-f', '-'], { input: place(name, '5') })
      expect([changed.code, changed.stdout]).toEqual([1, expect.stringMatching(/^\+ +owner: "5"$/m)])
    })

    it('are in the namespace of the context', async () => {
      const home = await Kubectl.configured(setting.kubectl, world.kubeconfig)
      try {
        expect(await home.output(['config', 'set-context', '--current', '--namespace', 'b'])).toBe(
          'Context "setpoint" modified.\n',
        )
        await home.output(['create', '-f', '-'], { input: place('here', '1') })
        expect((await placesIn(api, 'b').read('here')).spec).toEqual({ owner: '1' })
        expect(
          await home.output(['get', 'place', 'here', '--output', 'jsonpath={.metadata.namespace}']),
        ).toBe('b')
      } finally {
        await home.close()
      }
    })
  })

  it('lists kinds by their scope', async () => {
    const names = async (namespaced: boolean) =>
      (await run('api-resources', `--namespaced=${namespaced}`, '--output', 'name')).trimEnd().split('\n')
    const below = await names(true)
    expect(below).toEqual(expect.arrayContaining(['places.places.example.com', 'labels.places.example.com']))
    const above = await names(false)
    expect(above).toEqual(expect.arrayContaining(['namespaces', 'regions.places.example.com']))
    expect(below.filter(name => above.includes(name))).toEqual([])
    expect(cells(await run('api-resources', '--api-group', ''))).toContainEqual([
      'namespaces',
      'ns',
      'v1',
      'false',
      'Namespace',
    ])
  })

  it('explains namespaced kinds and those of the core group', async () => {
    expect(await run('explain', 'places.metadata.namespace')).toMatch(/^FIELD: namespace <string>$/m)
    expect(await run('explain', 'places.spec', '--recursive')).toMatch(/^ {2}seat\t<string>$/m)
    const text = await run('explain', 'namespace')
    expect(text).toMatch(/^KIND: +Namespace\nVERSION: +v1\n/m)
    expect(await run('explain', 'namespaces.spec.finalizers')).toMatch(/^FIELD: finalizers <\[\]string>$/m)
  })
})
