import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { ClientWorld, settings } from './support/client-world.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { Kubectl, type RunningKubectl } from './support/kubectl.ts'
import { eventually } from './support/worlds.ts'

describe.each(settings)('kubectl $kubectl on $title', setting => {
  let world: ClientWorld
  let api: Api
  let ships: Collection
  let buoys: Collection
  let kubectl: Kubectl
  const running: RunningKubectl[] = []

  const run = (...args: string[]) => kubectl.output(args)
  const start = (...args: string[]) => {
    const started = kubectl.start(args)
    running.push(started)
    return started
  }

  beforeAll(async () => {
    world = await ClientWorld.start(setting, ['ships-plugin'])
    api = world.api
    ships = new Collection(api, 'fleet.example.com/v1', 'Ship', 'ships')
    buoys = new Collection(api, 'fleet.example.com/v1', 'Buoy', 'buoys')
    kubectl = await Kubectl.configured(setting.kubectl, world.kubeconfig)
  })
  afterAll(async () => {
    await kubectl?.close()
    await world?.end()
  })
  afterEach(async () => {
    for (const each of running.splice(0)) await each.stop()
    await ships.clear()
    await buoys.clear()
  })

  const ready = {
    status: {
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Rigged',
          message: '',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
    },
  }

  async function createFleet(): Promise<void> {
    await ships.create(
      'beagle',
      { port: 'Plymouth', crew: 74, sails: true, draught: 3.8 },
      { labels: { 'x.com/of': 'darwin' } },
    )
    await ships.create('fram', { port: 'Oslo', crew: 16 }, { labels: { 'x.com/of': 'nansen' } })
    objectOf(await api.mergePatch(`${ships.at('beagle')}/status`, ready))
  }

  /** The cells of each line. Columns are separated by at least three spaces. */
  const cells = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map(line => line.trimEnd().split(/ {3,}/))
  const age = expect.stringMatching(/^\d+m?\d*s$/)

  describe('get', () => {
    it('prints the columns of the kind', async () => {
      await createFleet()
      expect(cells(await run('get', 'ships'))).toEqual([
        ['NAME', 'PORT', 'CREW', 'READY', 'AGE'],
        ['beagle', 'Plymouth', '74', 'True', age],
        // Missing cells are empty, so the age follows them.
        ['fram', 'Oslo', '16', age],
      ])
      expect(cells(await run('get', 'ships', '--no-headers'))).toHaveLength(2)
    })

    it('prints the other columns with --output wide', async () => {
      await createFleet()
      expect(cells(await run('get', 'ships', 'beagle', '--output', 'wide'))).toEqual([
        ['NAME', 'PORT', 'CREW', 'READY', 'SAILS', 'DRAUGHT', 'LAUNCHED', 'AGE'],
        ['beagle', 'Plymouth', '74', 'True', 'true', '3.8', age],
      ])
    })

    it('prints name and age of a kind without columns', async () => {
      await buoys.create('one', {})
      expect(cells(await run('get', 'buoys'))).toEqual([
        ['NAME', 'AGE'],
        ['one', age],
      ])
    })

    it('prints objects as yaml and json', async () => {
      await createFleet()
      const fram = (await ships.read('fram')).raw
      expect(load(await run('get', 'ship', 'fram', '--output', 'yaml'))).toEqual(fram)
      expect(JSON.parse(await run('get', 'ship', 'fram', '--output', 'json'))).toEqual(fram)
      const list = fieldsOf(load(await run('get', 'ships', '--output', 'yaml')))
      expect([list.kind, arrayOf(list.items)]).toEqual(['List', [(await ships.read('beagle')).raw, fram]])
    })

    it.each([
      ['name', 'ship.fleet.example.com/beagle\nship.fleet.example.com/fram\n'],
      ['jsonpath={.items[*].spec.port}', 'Plymouth Oslo'],
      ['jsonpath={range .items[*]}{.metadata.name}={.spec.crew} {end}', 'beagle=74 fram=16 '],
      ['go-template={{range .items}}{{.spec.port}},{{end}}', 'Plymouth,Oslo,'],
      [
        'custom-columns=NAME:.metadata.name,FROM:.spec.port',
        'NAME     FROM\nbeagle   Plymouth\nfram     Oslo\n',
      ],
    ])('prints with --output %s', async (output, expected) => {
      await createFleet()
      expect(await run('get', 'ships', '--output', output)).toBe(expected)
    })

    it('sorts, selects and shows labels', async () => {
      await createFleet()
      const names = (text: string) => cells(text).map(([name]) => name)
      expect(names(await run('get', 'ships', '--sort-by', '.spec.crew'))).toEqual(['NAME', 'fram', 'beagle'])
      expect(names(await run('get', 'ships', '--selector', 'x.com/of=nansen'))).toEqual(['NAME', 'fram'])
      expect(names(await run('get', 'ships', '--field-selector', 'spec.port=Plymouth'))).toEqual([
        'NAME',
        'beagle',
      ])
      expect(names(await run('get', 'ships', '--field-selector', 'metadata.name=fram'))).toEqual([
        'NAME',
        'fram',
      ])
      expect(
        cells(await run('get', 'ships', 'fram', '--show-labels'))
          .at(-1)
          ?.at(-1),
      ).toBe('x.com/of=nansen')
      expect(
        cells(await run('get', 'ships', 'fram', '--label-columns', 'x.com/of'))
          .at(-1)
          ?.at(-1),
      ).toBe('nansen')
    })

    it('prints all of a list in chunks', async () => {
      for (const name of ['a', 'b', 'c', 'd', 'e']) await buoys.create(name, {})
      const chunks = await run('get', 'buoys', '--chunk-size', '2')
      expect(cells(chunks).map(([name]) => name)).toEqual(['NAME', 'a', 'b', 'c', 'd', 'e'])
    })

    it('finds kinds by category, short name, singular, and group', async () => {
      await createFleet()
      await buoys.create('one', {})
      expect(cells(await run('get', 'all')).flat()).toContain('beagle')
      const fleet = await run('get', 'fleet', '--output', 'name')
      expect(fleet.split('\n').sort()).toEqual([
        '',
        'buoy.fleet.example.com/one',
        'ship.fleet.example.com/beagle',
        'ship.fleet.example.com/fram',
      ])
      for (const kind of ['sh', 'ship', 'ships.fleet.example.com', 'ships.v1.fleet.example.com', 'Ship'])
        expect(await run('get', kind, 'fram', '--output', 'name')).toBe('ship.fleet.example.com/fram\n')
      expect(cells(await run('get', 'ships.v1beta1.fleet.example.com'))).toEqual([
        ['NAME', 'HARBOUR'],
        ['beagle', 'Plymouth'],
        ['fram', 'Oslo'],
      ])
    })

    it('gets an object whose name has dots', async () => {
      await ships.create('ms.queen-mary.2', { port: 'Hamilton' })
      expect(
        cells(await run('get', 'ship', 'ms.queen-mary.2'))
          .at(1)
          ?.slice(0, 2),
      ).toEqual(['ms.queen-mary.2', 'Hamilton'])
    })

    it('says what is missing', async () => {
      expect((await start('get', 'ship', 'nobody').ended).stderr).toBe(
        'Error from server (NotFound): ships.fleet.example.com "nobody" not found\n',
      )
      expect((await start('get', 'ships').ended).stderr).toBe('No resources found\n')
      expect((await start('get', 'nothings').ended).stderr).toContain(
        `the server doesn't have a resource type "nothings"`,
      )
    })

    it('watches, and prints the columns once', async () => {
      await createFleet()
      const watch = start('get', 'ships', '--watch')
      await watch.prints(/fram/)
      objectOf(await api.mergePatch(ships.at('fram'), { spec: { crew: 13 } }))
      await watch.prints(/ 13 /)
      await ships.create('vega', { port: 'Karlskrona' })
      const lines = cells(await watch.prints(/vega.*\n/))
      expect(lines.map(([name, port]) => [name, port])).toEqual([
        ['NAME', 'PORT'],
        ['beagle', 'Plymouth'],
        ['fram', 'Oslo'],
        ['fram', 'Oslo'],
        ['vega', 'Karlskrona'],
      ])
    })

    it('watches only changes, with the types of the events', async () => {
      await createFleet()
      const watch = start('get', 'ships', '--watch-only', '--output-watch-events')
      const change = { metadata: { annotations: { note: 'ice' } } }
      await eventually(async () => {
        change.metadata.annotations.note += '!'
        objectOf(await api.mergePatch(ships.at('fram'), change))
        expect(watch.stdout).toContain('MODIFIED')
      })
      await api.delete(ships.at('fram'))
      const lines = cells(await watch.prints(/DELETED.*\n/))
      expect(lines[0]?.slice(0, 3)).toEqual(['EVENT', 'NAME', 'PORT'])
      expect(lines.at(-1)?.slice(0, 3)).toEqual(['DELETED', 'fram', 'Oslo'])
    })

    it('watches one object', async () => {
      await createFleet()
      const watch = start('get', 'ship', 'fram', '--watch')
      await watch.prints(/fram/)
      // kubectl prints the object, opens the watch, and drops the first event: the state at that time.
      let crew = 16
      await eventually(async () => {
        objectOf(await api.mergePatch(ships.at('fram'), { spec: { crew: ++crew } }))
        expect(watch.stdout).toMatch(/(.*\n){3}/)
      })
      const [header, before, after] = cells(watch.stdout).map(line => line.slice(0, 3))
      expect([header, before]).toEqual([
        ['NAME', 'PORT', 'CREW'],
        ['fram', 'Oslo', '16'],
      ])
      expect(after).toEqual(['fram', 'Oslo', expect.stringMatching(/^(1[7-9]|[2-9]\d|\d{3,})$/)])
    })
  })

  it('lists kinds and group versions', async () => {
    expect(cells(await run('api-resources', '--api-group', 'fleet.example.com'))).toEqual([
      ['NAME', 'SHORTNAMES', 'APIVERSION', 'NAMESPACED', 'KIND'],
      expect.arrayContaining(['buoys', 'fleet.example.com/v1', 'Buoy']),
      expect.arrayContaining(['ships', 'sh', 'fleet.example.com/v1', 'Ship']),
    ])
    const wide = await run('api-resources', '--api-group', 'fleet.example.com', '--output', 'wide')
    expect(wide).toMatch(/ships.*create,delete,deletecollection,get,list,patch,update,watch\s+all,fleet/)
    expect(
      (await run('api-resources', '--categories', 'fleet', '--output', 'name')).split('\n').sort(),
    ).toEqual(['', 'buoys.fleet.example.com', 'ships.fleet.example.com'])
    const versions = (await run('api-versions')).split('\n')
    expect(versions).toEqual(expect.arrayContaining(['fleet.example.com/v1', 'fleet.example.com/v1beta1']))
  })

  it('describes an object', async () => {
    await createFleet()
    const text = await run('describe', 'ship', 'beagle')
    expect(text).toMatch(/^Name: +beagle$/m)
    expect(text).toMatch(/^Labels: +x\.com\/of=darwin$/m)
    expect(text).toMatch(/^API Version: +fleet\.example\.com\/v1$/m)
    expect(text).toMatch(/^ +Port: +Plymouth$/m)
    expect(text).toMatch(/^Events: +<none>$/m)
  })

  describe('changes', () => {
    it('labels and annotations', async () => {
      await createFleet()
      expect(await run('label', 'ship', 'fram', 'x.com/pole=north')).toBe(
        'ship.fleet.example.com/fram labeled\n',
      )
      expect((await start('label', 'ship', 'fram', 'x.com/pole=south').ended).stderr).toContain(
        '--overwrite is false',
      )
      await run('label', 'ship', 'fram', 'x.com/pole=south', '--overwrite')
      await run('label', 'ships', '--all', 'x.com/of-')
      expect(await run('annotate', 'ship', 'fram', 'note=ice')).toBe(
        'ship.fleet.example.com/fram annotated\n',
      )
      const { labels, annotations } = (await ships.read('fram')).metadata
      expect([labels, annotations]).toEqual([{ 'x.com/pole': 'south' }, { note: 'ice' }])
    })

    it('by merge patch, JSON patch and of the status', async () => {
      await createFleet()
      const patched = 'ship.fleet.example.com/fram patched\n'
      expect(await run('patch', 'ship', 'fram', '--type', 'merge', '--patch', '{"spec":{"crew":12}}')).toBe(
        patched,
      )
      const operation = '[{"op":"replace","path":"/spec/port","value":"Larvik"}]'
      expect(await run('patch', 'ship', 'fram', '--type', 'json', '--patch', operation)).toBe(patched)
      const status = JSON.stringify(ready)
      expect(
        await run('patch', 'ship', 'fram', '--subresource', 'status', '--type', 'merge', '--patch', status),
      ).toBe(patched)
      expect(
        cells(await run('get', 'ship', 'fram'))
          .at(1)
          ?.slice(0, 4),
      ).toEqual(['fram', 'Larvik', '12', 'True'])
      expect((await start('patch', 'ship', 'fram', '--patch', '{"spec":{"crew":1}}').ended).stderr).toContain(
        'application/strategic-merge-patch+json is not supported',
      )
    })

    it('by file and editor, without validation by the client', async () => {
      const manifest = (port: string) => JSON.stringify(ships.body('fram', { port }))
      const withFile = (command: string, text: string) =>
        kubectl.output([command, '--filename', '-', '--validate=false'], { input: text })
      const named = 'ship.fleet.example.com/fram'
      expect(await withFile('create', manifest('Oslo'))).toBe(`${named} created\n`)
      expect(await withFile('apply', manifest('Larvik'))).toBe(`${named} configured\n`)
      expect(await withFile('apply', manifest('Larvik'))).toBe(`${named} unchanged\n`)
      expect((await kubectl.run(['diff', '--filename', '-'], { input: manifest('Bergen') })).stdout).toMatch(
        /^\+ +port: Bergen$/m,
      )
      expect(await withFile('replace', manifest('Bergen'))).toBe(`${named} replaced\n`)
      const editor = join(kubectl.home, 'editor.sh')
      await writeFile(editor, '#!/bin/sh\nsed -i s/Bergen/Oslo/ "$1"\n', { mode: 0o755 })
      const edited = await kubectl.run(['edit', 'ship', 'fram', '--validate=false'], {
        env: { EDITOR: editor },
      })
      expect([edited.code, edited.stdout]).toEqual([0, `${named} edited\n`])
      expect((await ships.read('fram')).spec).toEqual({ port: 'Oslo' })
    })

    it('cannot scale a kind without that subresource', async () => {
      await createFleet()
      const { code, stderr } = await start('scale', 'ship', 'fram', '--replicas', '2').ended
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining('nothing is served at /apis/fleet.example.com/v1/ships/fram/scale'),
      ])
    })

    it('an object whose resourceVersion was taken out of the manifest', async () => {
      await createFleet()
      const manifest = await run('get', 'ship', 'fram', '--output', 'yaml')
      await run('label', 'ship', 'fram', 'x.com/pole=north')
      const forced = manifest.replace(/^ +resourceVersion: .*\n/m, '').replace('Oslo', 'Larvik')
      expect(
        await kubectl.output(['replace', '--filename', '-', '--validate=false'], { input: forced }),
      ).toContain('replaced')
      expect((await ships.read('fram')).spec.port).toBe('Larvik')
      const conflict = await kubectl.run(['replace', '--filename', '-', '--validate=false'], {
        input: manifest,
      })
      expect([conflict.code, conflict.stderr]).toEqual([
        1,
        expect.stringContaining('take out metadata.version and metadata.resourceVersion'),
      ])
    })

    it('is refused with the violations of the schema', async () => {
      await createFleet()
      const { code, stderr } = await start(
        'patch',
        'ship',
        'fram',
        '--type',
        'merge',
        '--patch',
        '{"spec":{"crew":-1}}',
      ).ended
      expect([code, stderr]).toEqual([1, expect.stringContaining('spec.crew')])
    })
  })

  describe('delete', () => {
    it('by name, selector, file and all, and waits until the objects are gone', async () => {
      for (const [at, name] of ['a', 'b', 'c', 'd'].entries())
        await buoys.create(name, {}, at === 1 ? { labels: { 'x.com/old': '' } } : {})
      expect(await run('delete', 'buoy', 'a')).toBe('buoy.fleet.example.com "a" deleted\n')
      expect(await run('delete', 'buoys', '--selector', 'x.com/old')).toBe(
        'buoy.fleet.example.com "b" deleted\n',
      )
      const body = JSON.stringify(buoys.body('c', {}))
      expect(await kubectl.output(['delete', '--filename', '-'], { input: body })).toBe(
        'buoy.fleet.example.com "c" deleted\n',
      )
      expect(await run('delete', 'buoys', '--all')).toBe('buoy.fleet.example.com "d" deleted\n')
      expect((await buoys.list()).names).toEqual([])
      expect(await run('delete', 'buoy', 'a', '--ignore-not-found')).toBe('')
    })

    it('waits for the last finalizer', async () => {
      await buoys.create('held', {}, { finalizers: ['x.com/held'] })
      const deletion = start('delete', 'buoy', 'held')
      await deletion.prints(/deleted/)
      expect((await buoys.read('held')).metadata.deletionTimestamp).toBeDefined()
      await api.mergePatch(buoys.at('held'), { metadata: { finalizers: null } })
      expect((await deletion.ended).code).toBe(0)
      refusalOf(await api.get(buoys.at('held')), 404)
    })

    it.each(['background', 'foreground', 'orphan'])('with --cascade=%s', async policy => {
      const { metadata } = await buoys.create('owner', {})
      const owner = {
        apiVersion: buoys.apiVersion,
        kind: 'Buoy',
        name: 'owner',
        uid: metadata.uid,
        blockOwnerDeletion: true,
      }
      await buoys.create('dependent', {}, { ownerReferences: [owner] })
      await run('delete', 'buoy', 'owner', `--cascade=${policy}`)
      await eventually(async () =>
        expect((await buoys.list()).names).toEqual(policy === 'orphan' ? ['dependent'] : []),
      )
    })

    it('does nothing in a dry run, and all of it at once with --force or --now', async () => {
      await buoys.create('a', {})
      expect(await run('delete', 'buoy', 'a', '--dry-run=server')).toBe(
        'buoy.fleet.example.com "a" deleted (server dry run)\n',
      )
      await buoys.read('a')
      await run('delete', 'buoy', 'a', '--force', '--grace-period=0', '--wait=false')
      await buoys.create('b', {})
      await run('delete', 'buoy', 'b', '--now')
      expect((await buoys.list()).names).toEqual([])
    })
  })

  it('waits for a condition, a value and a deletion', async () => {
    await createFleet()
    expect(await run('wait', 'ship/beagle', '--for=condition=Ready')).toBe(
      'ship.fleet.example.com/beagle condition met\n',
    )
    expect(await run('wait', 'ship/fram', '--for=jsonpath={.spec.port}=Oslo')).toContain('condition met')
    const waiting = start('wait', 'ship/fram', '--for=condition=Ready')
    const gone = start('wait', 'ship/fram', '--for=delete')
    objectOf(await api.mergePatch(`${ships.at('fram')}/status`, ready))
    expect((await waiting.ended).code).toBe(0)
    await api.delete(ships.at('fram'))
    expect((await gone.ended).code).toBe(0)
    expect(
      (await start('wait', 'ship/beagle', '--for=condition=Sunk', '--timeout=1s').ended).stderr,
    ).toContain('timed out')
  })

  it('reads discovery once, and asks later whether it has changed', async () => {
    await run('get', 'ships')
    const log = (await start('get', 'ships', '--v', '6').ended).stderr
    expect(log).not.toContain('/apis?')
    const again = (await start('api-resources', '--cached=false', '--v', '6').ended).stderr
    expect(again).toMatch(/\/apis\S* .*(200 OK|304)/)
    // One request for all groups, and one for the core group.
    expect(again).not.toContain('/apis/fleet.example.com/v1')
  })

  it('shows its configuration, the versions, and raw responses', async () => {
    expect(fieldsOf(load(await run('config', 'view')))).toMatchObject({
      'current-context': 'setpoint',
      clusters: [
        {
          name: 'setpoint',
          cluster: setting.secure
            ? { server: world.world.server.url, 'certificate-authority-data': 'DATA+OMITTED' }
            : { server: world.world.server.url, 'insecure-skip-tls-verify': true },
        },
      ],
    })
    const { serverVersion } = fieldsOf(JSON.parse(await run('version', '--output', 'json')))
    const fields = fieldsOf(serverVersion)
    expect(fields.gitVersion).toMatch(/^v1\.34\.0\+setpoint\./)
    expect(Object.values(fields).every(value => typeof value === 'string')).toBe(true)
    expect(await run('get', '--raw', '/readyz')).toBe('ok')
  })

  it('completes names for the shell', async () => {
    await createFleet()
    expect((await run('__complete', 'get', 'sh')).split('\n')).toContain('ships.fleet.example.com')
    expect((await run('__complete', 'get', 'ship', 'f')).split('\n')[0]).toBe('fram')
  })

  it('is a proxy', async () => {
    await createFleet()
    const proxy = start('proxy', '--port', '0')
    const [, port] = /127\.0\.0\.1:(\d+)/.exec(await proxy.prints(/127\.0\.0\.1:\d+/)) ?? []
    const answer = await fetch(`http://127.0.0.1:${textOf(port)}${ships.at('fram')}`)
    expect(fieldsOf(await answer.json()).kind).toBe('Ship')
  })
})
