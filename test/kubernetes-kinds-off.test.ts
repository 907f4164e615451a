import { DiscoveredKinds, HttpTransport } from '@setpoint/controller-runtime'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { placesIn } from './support/kinds.ts'
import { runProgram } from './support/server.ts'
import { eventually, type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** `--kubernetes-kinds=false`: only the server itself uses the built-in kinds. */
let world: SharedWorld
let api: Api

beforeAll(async () => {
  world = await startSharedWorld('etcd', ['places-plugin'], { args: ['--kubernetes-kinds=false'] })
  api = world.api
})
afterAll(() => world?.end())

it.each([
  '/api',
  '/api/v1',
  '/api/v1/namespaces',
  '/api/v1/namespaces/default',
  '/api/v1/namespaces/default/secrets',
  '/api/v1/events?watch=true',
  '/apis/coordination.k8s.io/v1',
  '/apis/coordination.k8s.io/v1/leases',
  '/apis/events.k8s.io/v1/events',
  '/openapi/v3/api/v1',
  '/openapi/v3/apis/coordination.k8s.io/v1',
])('a client gets 404 for %s', async path => {
  refusalOf(await api.get(path), 404)
})

it('discovery and the index of documents have no built-in kind', async () => {
  const groups = arrayOf(fieldsOf((await api.get('/apis')).body).groups).map(group => fieldsOf(group).name)
  expect(groups).toContain('places.example.com')
  expect(groups.filter(name => String(name).endsWith('k8s.io'))).toEqual([])
  const { paths } = fieldsOf((await api.get('/openapi/v3')).body)
  expect(
    Object.keys(fieldsOf(paths)).filter(path => path.includes('k8s.io') || path.startsWith('api/')),
  ).toEqual([])
  const swagger = fieldsOf((await api.get('/openapi/v2')).body)
  expect(Object.keys(fieldsOf(swagger.paths)).filter(path => /k8s\.io|^\/api\//.test(path))).toEqual([])
})

it("a collector outside of the server discovers the plugins' kinds", async () => {
  const transport = new HttpTransport({ server: world.server.url })
  try {
    const kinds = new DiscoveredKinds({ transport })
    for await (const models of kinds.follow(AbortSignal.timeout(120_000))) {
      expect(models.map(({ plural }) => plural)).toContain('places')
      return
    }
    expect.unreachable('no kinds were discovered')
  } finally {
    transport.close()
  }
})

it('namespaced kinds of plugins have the namespaces that always exist', async () => {
  for (const namespace of ['default', 'setpoint-system'])
    await placesIn(api, namespace).create('here', { owner: 'me' })
  refusalOf(await api.post(placesIn(api, 'other').path, placesIn(api, 'other').body('here', {})), 404)
  objectOf(await api.delete(placesIn(api, 'default').at('here')))
})

it('the server elects its leader', async () => {
  await eventually(async () =>
    expect((await api.get('/readyz?verbose')).text).toContain('[+]controllers leading'),
  )
})

it('controllers in another process end with the reason', async () => {
  const args = ['serve', '--role', 'controllers', '--server', world.server.url, '--plugin', ...world.plugins]
  const { code, stderr } = await runProgram(args)
  expect(code).toBe(1)
  expect(stderr).toContain('start it without --kubernetes-kinds=false')
})
