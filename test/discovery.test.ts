import { rm } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './support/json.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { copyFixture } from './support/worlds.ts'

/** What kubectl sends. */
const aggregated =
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json'

describe('discovery', () => {
  let server: RunningServer
  let api: Api
  let plugins: string[]

  beforeAll(async () => {
    plugins = await Promise.all([copyFixture('ships-plugin'), copyFixture('demo-plugin')])
    server = await startSharedServer({ plugins })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all(plugins.map(dir => rm(dir, { recursive: true, force: true })))
  })

  async function groupsIn(accept = aggregated): Promise<Fields[]> {
    return arrayOf(fieldsOf((await api.get('/apis', { headers: { accept } })).body).items).map(fieldsOf)
  }

  it.each([
    [aggregated, 'v2'],
    ['application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList', 'v2beta1'],
    [
      'application/json;as=APIGroupDiscoveryList;v=v3;g=apidiscovery.k8s.io, application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io',
      'v2beta1',
    ],
  ])('is one document for clients that accept %s', async (accept, version) => {
    const answer = await api.get('/apis', { headers: { accept } })
    expect(answer.headers.get('content-type')).toBe(
      `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`,
    )
    expect(answer.headers.get('vary')).toMatch(/^Accept,/)
    expect(answer.body).toMatchObject({
      kind: 'APIGroupDiscoveryList',
      apiVersion: `apidiscovery.k8s.io/${version}`,
    })
  })

  it.each([undefined, '*/*', 'application/json', 'text/html, */*;q=0.8'])(
    'is the list of groups for clients that accept %s',
    async accept => {
      const answer = await api.get('/apis', accept === undefined ? {} : { headers: { accept } })
      expect([answer.headers.get('content-type'), fieldsOf(answer.body).kind]).toEqual([
        'application/json',
        'APIGroupList',
      ])
    },
  )

  it('describes kinds with their versions, names, categories and subresources', async () => {
    const fleet = (await groupsIn()).find(({ metadata }) => fieldsOf(metadata).name === 'fleet.example.com')
    const kindOf = (version: string, kind: string) => ({ group: 'fleet.example.com', version, kind })
    const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
    const ship = (version: string) => ({
      resource: 'ships',
      responseKind: kindOf(version, 'Ship'),
      scope: 'Cluster',
      singularResource: 'ship',
      verbs,
      shortNames: ['sh'],
      categories: ['all', 'fleet'],
      subresources: [
        { subresource: 'status', responseKind: kindOf(version, 'Ship'), verbs: ['get', 'patch', 'update'] },
      ],
    })
    const buoy = {
      resource: 'buoys',
      responseKind: kindOf('v1', 'Buoy'),
      scope: 'Cluster',
      singularResource: 'buoy',
      verbs,
      categories: ['fleet'],
    }
    expect(fleet).toEqual({
      metadata: { name: 'fleet.example.com' },
      versions: [
        { version: 'v1', freshness: 'Current', resources: [buoy, ship('v1')] },
        { version: 'v1beta1', freshness: 'Current', resources: [ship('v1beta1')] },
      ],
    })
  })

  it('describes routes without a kind', async () => {
    const routes = (await groupsIn()).find(
      ({ metadata }) => fieldsOf(metadata).name === 'uc.api.demo.example.com',
    )
    const responseKind = { group: '', version: '', kind: '' }
    const resource = { responseKind, scope: 'Cluster', singularResource: '', verbs: [] }
    expect(fieldsOf(arrayOf(routes?.versions)[0]).resources).toEqual([
      {
        resource: 'gadgets',
        ...resource,
        subresources: [{ subresource: 'mail', responseKind, verbs: ['get'] }],
      },
      { resource: 'fail', ...resource },
    ])
  })

  it('has the same groups, versions and resources in both forms', async () => {
    const plain = arrayOf(fieldsOf((await api.get('/apis')).body).groups).map(fieldsOf)
    const groups = await groupsIn()
    expect(groups.map(({ metadata }) => fieldsOf(metadata).name)).toEqual(plain.map(({ name }) => name))
    for (const { metadata, versions } of groups) {
      for (const { version, resources } of arrayOf(versions).map(fieldsOf)) {
        const path = `/apis/${textOf(fieldsOf(metadata).name)}/${textOf(version)}`
        const entries = arrayOf(fieldsOf((await api.get(path)).body).resources).map(fieldsOf)
        const names = entries.map(({ name }) => textOf(name).split('/')[0])
        expect(arrayOf(resources).map(each => fieldsOf(each).resource)).toEqual([...new Set(names)])
      }
    }
  })

  it.each(['/apis', '/apis/fleet.example.com', '/apis/fleet.example.com/v1'])(
    '%s is 304 for a client that has it',
    async path => {
      for (const accept of ['application/json', aggregated]) {
        const headers = { accept }
        const first = await api.get(path, { headers })
        const etag = first.headers.get('etag') ?? ''
        expect(etag).toMatch(/^"[-\w]{43}"$/)
        const again = await api.get(path, { headers: { ...headers, 'if-none-match': etag } })
        expect([again.status, again.text, again.headers.get('etag')]).toEqual([304, '', etag])
        expect((await api.get(path, { headers: { ...headers, 'if-none-match': '"other"' } })).text).toBe(
          first.text,
        )
      }
    },
  )

  it('changes with the plugins', async () => {
    const plugin = '/apis/plugins.setpoint.dev/v1/plugins/ships'
    const etagOf = async () =>
      (await api.get('/apis', { headers: { accept: aggregated } })).headers.get('etag')
    const before = await etagOf()
    expect(await etagOf()).toBe(before)
    await api.mergePatch(plugin, { spec: { reload: '1' } })
    const reloaded = async () => JSON.stringify(objectOf(await api.get(plugin)).status.conditions)
    await expect.poll(reloaded).toContain('Reloaded')
    await expect.poll(etagOf).toBe(before)
  })

  it('has the core group below /api, in the same forms', async () => {
    const { items } = fieldsOf((await api.get('/api', { headers: { accept: aggregated } })).body)
    const [core, ...others] = arrayOf(items).map(fieldsOf)
    expect(others).toEqual([])
    expect(core?.metadata).toMatchObject({ name: '' })
    const [version] = arrayOf(core?.versions).map(fieldsOf)
    const responseKind = { group: '', version: 'v1', kind: 'Namespace' }
    const verbs = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch']
    const subresource = (name: string, allowed: readonly string[]) => ({
      ...{ subresource: name, responseKind, verbs: allowed },
    })
    expect(version?.version).toBe('v1')
    const resources = arrayOf(version?.resources).map(fieldsOf)
    expect(resources.find(({ resource }) => resource === 'namespaces')).toMatchObject({
      ...{ resource: 'namespaces', responseKind, scope: 'Cluster', singularResource: 'namespace', verbs },
      shortNames: ['ns'],
      subresources: [subresource('status', ['get', 'patch', 'update']), subresource('finalize', ['update'])],
    })
    expect((await api.get('/api')).body).toMatchObject({ kind: 'APIVersions', versions: ['v1'] })
    const plain = fieldsOf((await api.get('/api/v1')).body)
    expect(plain).toMatchObject({ kind: 'APIResourceList', groupVersion: 'v1' })
    expect(arrayOf(plain.resources).map(resource => fieldsOf(resource).name)).toEqual(
      expect.arrayContaining(['namespaces', 'namespaces/status', 'namespaces/finalize', 'configmaps']),
    )
    refusalOf(await api.get('/api/v2'), 404)
  })

  it('/version has the nine fields of Kubernetes, all text', async () => {
    const body = fieldsOf((await api.get('/version')).body)
    expect(Object.keys(body)).toEqual([
      'major',
      'minor',
      'gitVersion',
      'gitCommit',
      'gitTreeState',
      'buildDate',
      'goVersion',
      'compiler',
      'platform',
    ])
    for (const value of Object.values(body)) expect(typeof value).toBe('string')
    expect(body).toMatchObject({
      major: '1',
      minor: '34',
      gitVersion: expect.stringMatching(/^v1\.34\.0\+setpoint\.\d/),
    })
  })
})
