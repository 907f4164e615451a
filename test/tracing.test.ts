import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fieldsOf } from './support/json.ts'
import { gadgetsOf } from './support/kinds.ts'
import { type Running, spawnProgram } from './support/server.ts'
import { eventually, startWorld, type World } from './support/worlds.ts'

/** Programs with an OpenTelemetry SDK, as an operator adds one. */
const register = new URL('fixtures/tracing/register.js', import.meta.url)
const resource = 'gadgets.demo.example.com'

const env = (file: string) => ({ NODE_OPTIONS: `--import=${register}`, SPANS: file })

const spansIn = async (file: string) => {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.split('\n').flatMap(line => (line === '' ? [] : [fieldsOf(JSON.parse(line))]))
}

describe('spans', () => {
  let folder: string
  let world: World
  let controllers: Running

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-spans-'))
    const options = { env: env(join(folder, 'server')), args: ['--role', 'apiserver'] }
    world = await startWorld('embedded', ['demo-plugin'], options)
    const args = ['--server', world.server.url, '--plugin', world.plugins[0] ?? '']
    controllers = spawnProgram(['serve', '--role', 'controllers', ...args], {
      env: env(join(folder, 'controllers')),
    })
  })
  afterAll(async () => {
    await controllers?.kill('SIGKILL')
    await world?.end()
    await rm(folder, { recursive: true, force: true })
  })

  const spans = (name: string) => spansIn(join(folder, name))

  it('of requests are children of the span that the client names', async () => {
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01`, 'user-agent': 'a-test' }
    const path = `/apis/demo.example.com/v1/gadgets`
    expect((await world.api.get(`${path}?size=1`, { headers })).status).toBe(200)
    expect((await world.api.get('/apis/elsewhere', { headers })).status).toBe(404)
    await eventually(async () => {
      const ours = (await spans('server')).filter(span => span.traceId === traceId)
      expect(ours).toMatchObject([
        {
          name: `LIST ${resource}`,
          kind: 1,
          parent: 'b7ad6b7169203331',
          attributes: {
            'http.request.method': 'GET',
            'url.path': path,
            'url.scheme': 'http',
            'http.response.status_code': 200,
            'user_agent.original': 'a-test',
            'client.address': '127.0.0.1',
            'setpoint.verb': 'list',
            'setpoint.resource': resource,
            'setpoint.user': 'setpoint:local',
          },
        },
        { name: 'GET', attributes: { 'http.response.status_code': 404 } },
      ])
    })
  })

  it('of the writes of a reconciler in another process are children of the span of its run', async () => {
    await gadgetsOf(world.api).create('a', { email: 'a@example.com' })
    await eventually(async () => {
      const runs = (await spans('controllers')).filter(({ name }) => name === `reconcile demo/${resource}`)
      const writes = (await spans('server')).filter(({ name }) => name === `PATCH ${resource}`)
      expect(writes).not.toEqual([])
      expect(runs.map(({ spanId }) => spanId)).toContain(writes[0]?.parent)
    })
  })

  it('of the writes of a reconciler in the server are children of the span of its run', async () => {
    const file = join(folder, 'all')
    const all = await startWorld('embedded', ['demo-plugin'], { env: env(file) })
    try {
      await gadgetsOf(all.api).create('a', { email: 'a@example.com' })
      await eventually(async () => {
        const spans = await spansIn(file)
        const run = spans.find(({ name }) => name === `reconcile demo/${resource}`)
        const attributes = { 'http.request.method': 'PATCH', 'http.response.status_code': 200 }
        expect(run).toBeDefined()
        expect(spans).toContainEqual(
          expect.objectContaining({
            kind: 0,
            parent: run?.spanId,
            attributes: expect.objectContaining(attributes),
          }),
        )
      })
    } finally {
      await all.end()
    }
  })
})
