import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { gadgetsOf } from './support/kinds.ts'
import { pluginStates } from './support/plugins.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { eventually } from './support/worlds.ts'

const compiler = fileURLToPath(new URL('../node_modules/.bin/tsc', import.meta.url))
const source = fileURLToPath(new URL('./fixtures/contract-plugin/index.ts', import.meta.url))

describe('the TypeScript plugin of the documents', () => {
  let dir: string
  let server: RunningServer
  let api: Api

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'setpoint-contract-plugin-'))
    const options = ['--strict', '--module', 'nodenext', '--target', 'es2022', '--skipLibCheck']
    // Fails with the compiler's message if a type does not follow from the schema.
    await promisify(execFile)(compiler, ['--ignoreConfig', ...options, '--outDir', join(dir, 'dist'), source])
    const manifest = { name: 'demo', version: '1.0.0', type: 'module', exports: './dist/index.js' }
    await writeFile(join(dir, 'package.json'), JSON.stringify(manifest))
    server = await startSharedServer({ plugins: [dir] })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await rm(dir, { recursive: true, force: true })
  })

  it('compiles under strict and starts', async () => {
    await eventually(async () => expect((await pluginStates(api)).get('demo')?.phase).toBe('Started'))
  })

  it('has its indexes, its controller and its routes, including those of a decorated class', async () => {
    const gadgets = gadgetsOf(api)
    await gadgets.create('a', { email: 'a@example.com', n: 7, tags: ['x', 'y'] })
    await gadgets.create('b', { email: 'b@example.com', n: 10, tags: ['y'] })
    expect((await gadgets.list({ fieldSelector: 'spec.tags=y', sort: 'spec.n' })).names).toEqual(['b', 'a'])
    refusalOf(await api.post(gadgets.path, gadgets.body('c', { email: 'a@example.com' })), 409)
    await eventually(async () => expect((await gadgets.read('a')).status).toEqual({ phase: 'a@example.com' }))
    const greeting = await api.get('/apis/uc.api.demo.example.com/v1/gadgets/a/greeting')
    expect(greeting.body).toEqual({ hello: 'a' })
    const summary = await api.get('/apis/console.api.demo.example.com/v1/gadgets/a/summary')
    expect(summary.body).toEqual({ user: expect.any(String), tags: 2 })
    objectOf(await api.delete(gadgets.at('a')))
    await eventually(async () => refusalOf(await api.get(gadgets.at('a')), 404))
    await eventually(async () => expect(server.stderr()).toContain('cleaned up'))
  })
})
