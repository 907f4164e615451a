import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { freePort } from './support/ports.ts'
import { Running } from './support/server.ts'

/** The packages as npm would publish them, installed in a project outside the repository. */

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)
const packages = ['apiserver', 'controller-runtime']

/** A plugin in TypeScript whose controller and route use the types of its model. */
const plugin = `
import { defineModel, definePlugin, Get, ApiVersion, type RouteRequest } from '@setpoint/controller-runtime'
import { startTestServer } from '@setpoint/controller-runtime/testing'

const Page = defineModel({
  group: 'pages.example.com',
  version: 'v1',
  kind: 'Page',
  singular: 'page',
  plural: 'pages',
  schema: { spec: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] } },
})

@ApiVersion('console.api.pages.example.com/v1')
class Titles {
  @Get('/titles')
  async titles({ client }: RouteRequest) {
    const { items } = await client.list(Page)
    return { body: items.map(page => page.spec.title.toUpperCase()) }
  }
}

export const servers: typeof startTestServer = startTestServer

export default definePlugin({
  name: 'pages',
  models: [Page],
  setup(context) {
    context.controller(Page, c => c.reconcile(async (page, { log }) => log.info({}, page.spec.title)))
    context.routes(Titles)
  },
})
`

/** A plugin that registers its tracers when it is loaded, which is after the SDK. */
const tracedPlugin = `
import { trace } from '@opentelemetry/api'
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import { defineModel, definePlugin } from '@setpoint/controller-runtime'

const done = async () => {}
const onEnd = span => console.error('ended span: ' + span.name)
const spanProcessor = { onStart() {}, onEnd, forceFlush: done, shutdown: done }
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [spanProcessor] }))

const Page = defineModel({
  group: 'traced.example.com', version: 'v1', kind: 'Page', singular: 'page', plural: 'pages', schema: { spec: {} },
})
export default definePlugin({
  name: 'traced',
  models: [Page],
  setup(context) {
    context.controller(Page, c => c.reconcile(async () => {}))
  },
})
`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-packages-'))
  const manifest = { name: 'pages', version: '1.0.0', type: 'module', exports: './dist/index.js' }
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest))
  await writeFile(join(folder, 'index.ts'), plugin)
  const names = packages.flatMap(name => ['--workspace', name])
  await run('npm', ['pack', ...names, '--ignore-scripts', '--pack-destination', folder], { cwd: root })
  const archives = (await readdir(folder)).filter(name => name.endsWith('.tgz')).map(name => `./${name}`)
  const { devDependencies } = fieldsOf(JSON.parse(await readFile(join(root, 'package.json'), 'utf8')))
  const tracing = `@opentelemetry/sdk-trace-base@${fieldsOf(devDependencies)['@opentelemetry/sdk-trace-base']}`
  const quiet = ['--no-audit', '--no-fund', '--prefer-offline']
  await run('npm', ['install', ...quiet, ...archives, tracing], { cwd: folder })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test.each(packages)('the package of %s contains its files for users, and no tests', async name => {
  const installed = join(folder, 'node_modules/@setpoint', name)
  const files = (await readdir(installed, { recursive: true })).map(file => file.replaceAll('\\', '/'))
  const [manifest, license] = await Promise.all(
    ['package.json', 'LICENSE'].map(file => readFile(join(installed, file), 'utf8')),
  )
  expect(license).toBe(await readFile(join(root, 'LICENSE'), 'utf8'))
  expect(files).toContain('README.md')
  const own = files.filter(file => !file.startsWith('templates/'))
  expect(own.filter(file => /\.test\.|conformance\.test|oracle|tsbuildinfo|(^|\/)src\//.test(file))).toEqual(
    [],
  )
  const { exports, keywords } = fieldsOf(JSON.parse(manifest ?? ''))
  expect(arrayOf(keywords).length).toBeGreaterThan(0)
  for (const entry of Object.values(fieldsOf(exports)).map(fieldsOf)) {
    for (const target of Object.values(entry)) expect(files).toContain(textOf(target).replace('./', ''))
  }
  for (const file of files.filter(each => each.endsWith('.map'))) {
    const { sources, sourcesContent } = fieldsOf(JSON.parse(await readFile(join(installed, file), 'utf8')))
    expect(
      arrayOf(sourcesContent ?? []).filter(text => typeof text === 'string'),
      file,
    ).toHaveLength(arrayOf(sources).length)
  }
  for (const file of files.filter(each => each.endsWith('.d.ts'))) {
    const text = await readFile(join(installed, file), 'utf8')
    const [, map] = /^\/\/# sourceMappingURL=(.*)$/m.exec(text) ?? []
    if (map !== undefined) expect(files, file).toContain(join(dirname(file), map))
  }
})

/** The imports of packages in a file that esbuild has written, and the modules that it requires. */
const imports =
  /(?:^|[;}\n])(?:import|import[^;"]*from|export[^;"]*from)"([^".][^"]*)"|createRequire\(import\.meta\.url\)\("([^"]*)"\)/g

test.each([
  ['apiserver', ['@grpc/grpc-js', '@setpoint/controller-runtime', 'cockatiel', 'etcd3', 'lmdb']],
  ['controller-runtime', []],
])('the bundle of %s imports only Node and the packages that must stay apart', async (name, apart) => {
  const bundle = join(folder, 'node_modules/@setpoint', name, 'bundle')
  const imported = new Set<string>()
  for (const file of await readdir(bundle)) {
    const text = await readFile(join(bundle, file), 'utf8')
    for (const [, specifier, required = ''] of text.matchAll(imports))
      imported.add((specifier ?? required).replace(/^(@[^/]+\/[^/]+)\/.*/, '$1'))
  }
  expect([...imported].filter(each => !isBuiltin(each)).sort()).toEqual(apart)
})

test('a process of the server loads one copy of the packages that the SDK uses too', async () => {
  for (const [name, isThere] of [
    ['controller-runtime', true],
    ['apiserver', false],
  ] as const) {
    const bundle = join(folder, 'node_modules/@setpoint', name, 'bundle')
    const files = (await readdir(bundle)).filter(file => file !== 'testing.js')
    const texts = await Promise.all(files.map(file => readFile(join(bundle, file), 'utf8')))
    // esbuild names each bundled CommonJS file by its path.
    for (const shared of ['prom-client', 'ws'])
      expect(texts.join('').includes(`node_modules/${shared}/`), `${shared} in ${name}`).toBe(isThere)
  }
})

test('a plugin compiles under strict against the packages, and the server runs it', async () => {
  const target = ['--target', 'es2022', '--module', 'nodenext', '--outDir', 'dist']
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
  const args = ['--ignoreConfig', '--strict', ...target, ...types, 'index.ts']
  const compiled = run(join(root, 'node_modules/.bin/tsc'), args, { cwd: folder })
  // The compiler writes its errors to standard output.
  await compiled.catch(({ stdout }) => expect.fail(stdout))
  const address = `127.0.0.1:${await freePort()}`
  const server = new Running(['serve', '--listen', address, '--plugin', folder], {
    cwd: folder,
    program: join(folder, 'node_modules/.bin/setpoint'),
  })
  try {
    await server.says(/^setpoint listening on /)
    const pages = `http://${address}/apis/pages.example.com/v1/pages`
    const page = {
      apiVersion: 'pages.example.com/v1',
      kind: 'Page',
      metadata: { name: 'a' },
      spec: { title: 'x' },
    }
    const headers = { 'content-type': 'application/json' }
    await expect
      .poll(async () => (await fetch(pages, { method: 'POST', headers, body: JSON.stringify(page) })).status)
      .toBe(201)
    expect(await (await fetch(`${pages}/a`)).json()).toMatchObject(page)
    const titles = await fetch(`http://${address}/apis/console.api.pages.example.com/v1/titles`)
    expect(await titles.json()).toEqual(['X'])
    expect((await fetch(`http://${address}/docs/docs.js`)).status).toBe(200)
  } finally {
    await server.kill('SIGTERM')
  }
})

test('the SDK traces with the provider that a plugin registers with its own copy of the OpenTelemetry API', async () => {
  const dir = join(folder, 'traced')
  await mkdir(dir)
  const manifest = { name: 'traced', version: '1.0.0', type: 'module', exports: './index.js' }
  await writeFile(join(dir, 'package.json'), JSON.stringify(manifest))
  await writeFile(join(dir, 'index.js'), tracedPlugin)
  const address = `127.0.0.1:${await freePort()}`
  const server = new Running(
    ['serve', '--listen', address, '--plugin', dir, '--data-dir', join(dir, 'data')],
    {
      cwd: folder,
      program: join(folder, 'node_modules/.bin/setpoint'),
    },
  )
  try {
    await server.says(/^setpoint listening on /)
    const pages = `http://${address}/apis/traced.example.com/v1/pages`
    const page = { apiVersion: 'traced.example.com/v1', kind: 'Page', metadata: { name: 'a' } }
    const sent = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(page),
    }
    await expect.poll(async () => (await fetch(pages, sent)).status).toBe(201)
    await expect
      .poll(() => server.stderr)
      .toContain('ended span: reconcile traced/pages.traced.example.com\n')
  } finally {
    await server.kill('SIGTERM')
  }
})
