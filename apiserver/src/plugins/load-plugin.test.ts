import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { discoverPlugins, loadPlugin } from './load-plugin.ts'
import { PluginLoadError } from './plugin-package.ts'

/**
 * Plugins are loaded by the compiled server in a process of its own: within a test, imports would go through the
 * test runner instead of Node. The process runs the body of an async function for each message.
 */
const compiled = new URL('../../dist/plugins/load-plugin.js', import.meta.url).href
const program = `
  import { loadPlugin } from ${JSON.stringify(compiled)}
  import { PluginLoadError } from ${JSON.stringify(new URL('plugin-package.js', compiled))}
  const AsyncFunction = (async () => {}).constructor
  process.on('message', body =>
    new AsyncFunction('loadPlugin', 'PluginLoadError', body)(loadPlugin, PluginLoadError).then(
      value => process.send({ value }),
      error => process.send({ error: String(error?.stack) })))`
let server: ChildProcess

beforeAll(() => {
  server = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
})

afterAll(() => server.kill('SIGKILL'))

let root: string

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'setpoint-plugins-')))
})

afterEach(() => rm(root, { recursive: true }))

/** Makes a folder outside the repository; a `package.json` given as an object is written as JSON. */
async function folder(name: string, files: Record<string, string | object>): Promise<string> {
  const dir = join(root, name)
  await mkdir(dir, { recursive: true })
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return dir
}

/** Runs the body of an async function that may use `loadPlugin`, and returns its result. */
async function inServer(body: string): Promise<unknown> {
  server.send(body)
  const [{ value, error }] = await once(server, 'message')
  if (error !== undefined) throw new Error(error)
  return value
}

async function load(...dirs: string[]): Promise<unknown[]> {
  const result = await inServer(`
    const loaded = []
    for (const dir of ${JSON.stringify(dirs)}) {
      const { plugin, ...rest } = await loadPlugin(dir)
      loaded.push({ name: plugin.name, models: plugin.models.map(({ kind }) => kind), ...rest })
    }
    return loaded`)
  return Array.isArray(result) ? result : []
}

/** Returns the message that refuses a folder before anything is imported, without the folder's name. */
async function refusal(dir: string): Promise<string> {
  const error: unknown = await loadPlugin(dir).catch((thrown: unknown) => thrown)
  if (!(error instanceof PluginLoadError))
    throw new Error('was not refused as it should be', { cause: error })
  expect(error).toMatchObject({ dir, message: expect.stringContaining(`plugin ${dir}: `) })
  return error.message.replace(`plugin ${dir}: `, '')
}

/** The same for a refusal after the import, with the thrown error. */
async function importRefusal(dir: string, importTimeoutMs = 30_000): Promise<unknown> {
  return inServer(`
    return await loadPlugin(${JSON.stringify(dir)}, { importTimeoutMs: ${importTimeoutMs} }).then(() => 'loaded', error => {
      if (!(error instanceof PluginLoadError) || error.dir !== ${JSON.stringify(dir)}) throw error
      return { message: error.message, cause: error.cause?.message, stack: error.cause?.stack }
    })`)
}

const minimal = `
  import { definePlugin } from '@setpoint/controller-runtime'
  export default definePlugin({ name: 'minimal' })`

const esm = { type: 'module', exports: './index.js' }

/** The contract's own example, section 10, in plain JavaScript. */
const example = `
import { ApiVersion, definePlugin, defineModel, Get, singleValueIndex, multiValueIndex } from '@setpoint/controller-runtime'

export const Gadget = defineModel({
  group: 'demo.example.com', version: 'v1', kind: 'Gadget', singular: 'gadget', plural: 'gadgets',
  schema: {
    spec: { type: 'object', required: ['email'], properties: {
      email: { type: 'string', maxLength: 64, description: 'Whom to tell.' }, n: { type: 'integer', minimum: 0, maximum: 100 },
      tags: { type: 'array', items: { type: 'string' } } } },
    status: { type: 'object', properties: { phase: { type: 'string' } } } },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.email', unique: true, indexFunc: gadget => gadget.spec.email }),
    singleValueIndex({ name: 'spec.n', order: 'DESC', indexFunc: gadget => gadget.spec.n?.toString().padStart(3, '0') }),
    multiValueIndex({ name: 'spec.tags', indexFunc: gadget => gadget.spec.tags ?? [] }) ],
  printerColumns: [{ name: 'Email', type: 'string', jsonPath: '.spec.email' }],
})

class GadgetEndpoint {
  greet() { return { body: 'hello' } }
}
ApiVersion('uc.api.demo.example.com/v1')(GadgetEndpoint)
Get('/gadgets/:name/greeting')(GadgetEndpoint.prototype, 'greet')

export default definePlugin({
  name: 'demo',
  models: [Gadget],
  setup(plugin) {
    plugin.controller(Gadget, c => c
      .reconcile(async (gadget, { client, signal }) => ({ requeueAfterMs: 30_000 }))
      .finalize('demo.example.com/cleanup', async (gadget, { signal }) => {}))
    plugin.routes('console.api.demo.example.com/v1', r => r
      .get('/gadgets/:name/summary', async ({ params, client, user }) => ({ body: {} })))
    plugin.routes(GadgetEndpoint)
  },
})`

describe('a plugin in a folder of its own, without node_modules', () => {
  it("loads as the contract's example", async () => {
    const dir = await folder('demo', {
      'package.json': { name: '@example/demo', version: '1.2.3-rc.1', ...esm },
      'index.js': example,
      'resources/extensions/gadgets.yaml': '',
    })
    expect(await load(dir)).toEqual([
      {
        name: 'demo',
        models: ['Gadget'],
        dir,
        packageName: '@example/demo',
        packageVersion: '1.2.3-rc.1',
        resourcesDir: join(dir, 'resources'),
      },
    ])
  })

  it('shares one SDK with the server and with other plugins, even if it brings its own', async () => {
    const sdk = (name: string) => `
      import { ApiError, definePlugin } from '@setpoint/controller-runtime'
      import * as api from '@setpoint/controller-runtime/api'
      if (api.ApiError !== ApiError) throw new Error('two SDKs')
      globalThis.seen = [...(globalThis.seen ?? []), ApiError]
      export default definePlugin({ name: '${name}' })`
    const one = await folder('one', { 'package.json': esm, 'index.js': sdk('one') })
    const two = await folder('two', {
      'package.json': esm,
      'index.js': sdk('two'),
      'node_modules/@setpoint/controller-runtime/package.json': {
        ...esm,
        name: '@setpoint/controller-runtime',
      },
      'node_modules/@setpoint/controller-runtime/index.js': 'throw new Error("the copy of the plugin")',
    })
    const result = await inServer(`
      await loadPlugin(${JSON.stringify(one)})
      await loadPlugin(${JSON.stringify(two)})
      return globalThis.seen.map(each => each === globalThis.seen[0])`)
    expect(result).toEqual([true, true])
  })

  it('imports other packages as Node does, from its own node_modules', async () => {
    const dir = await folder('demo', {
      'package.json': esm,
      'index.js': `import { definePlugin } from '@setpoint/controller-runtime'
        import name from 'helper'
        export default definePlugin({ name })`,
      'node_modules/helper/package.json': { name: 'helper', ...esm },
      'node_modules/helper/index.js': "export default 'helped'",
    })
    expect(await load(dir)).toMatchObject([{ name: 'helped', packageName: 'demo', packageVersion: '0.0.0' }])
  })

  it('may be a link', async () => {
    const dir = await folder('real', { 'package.json': esm, 'index.js': minimal })
    await symlink(dir, join(root, 'link'))
    expect(await load(join(root, 'link'))).toMatchObject([{ name: 'minimal', dir: join(root, 'link') }])
  })
})

describe('the entry', () => {
  it('may be declared by each field of package.json', async () => {
    const manifests: Record<string, [manifest: object, file: string]> = {
      path: [{ type: 'module', exports: './lib/a.js' }, 'lib/a.js'],
      conditions: [{ exports: { types: './a.d.ts', import: './a.mjs', default: './b.js' } }, 'a.mjs'],
      nested: [{ exports: { browser: './b.js', node: { import: './a.mjs' } } }, 'a.mjs'],
      subpaths: [{ exports: { './x': './x.js', '.': { default: './a.mjs' } } }, 'a.mjs'],
      alternatives: [{ exports: [{ browser: './b.js' }, './a.mjs'] }, 'a.mjs'],
      both: [{ type: 'module', main: './b.js', exports: './a.js' }, 'a.js'],
      main: [{ type: 'module', main: 'lib/a.js' }, 'lib/a.js'],
    }
    const dirs: string[] = []
    for (const [name, [manifest, file]] of Object.entries(manifests)) {
      dirs.push(await folder(name, { 'package.json': manifest, [file]: minimal }))
    }
    expect(await load(...dirs)).toMatchObject(dirs.map(dir => ({ dir, name: 'minimal' })))
  })

  it.each([
    ['nothing', { type: 'module' }, /^package\.json names no module; give it "exports"/],
    [
      'no "."',
      { type: 'module', exports: { './x': './x.js' } },
      /^package\.json: "exports" has no "\." for an import/,
    ],
    [
      'a missing file',
      { type: 'module', exports: './dist/a.js' },
      /^\.\/dist\/a\.js .*does not exist; .*build it first$/,
    ],
    ['a folder', { type: 'module', main: '.' }, /must be a path within the folder/],
    ['something outside', { type: 'module', main: '../a.js' }, /must be a path within the folder/],
    ['no path', { type: 'module', exports: 5 }, /"exports" must be the path of a module/],
    [
      'a bare path in exports',
      { type: 'module', exports: 'index.js' },
      /must be a path within the folder such as "\.\/index\.js"/,
    ],
    ['TypeScript', { type: 'module', exports: './index.ts' }, /must be a \.js or \.mjs file: compile it/],
    ['CommonJS', { type: 'module', exports: './index.cjs' }, /a plugin is an ES module/],
    [
      'CommonJS without saying so',
      { main: './index.js' },
      /^package\.json needs "type": "module" for \.\/index\.js/,
    ],
  ])('is refused where package.json gives %s', async (_, manifest, message) => {
    const dir = await folder('demo', { 'package.json': manifest, 'index.js': minimal, '../a.js': minimal })
    expect(await refusal(dir)).toMatch(message)
  })
})

describe('a module that cannot be loaded', () => {
  it.each([
    [
      'throws',
      'function fail() { throw new RangeError("too far") }\nfail()',
      /: index\.js cannot be imported: RangeError: too far \(index\.js:1\)$/,
    ],
    ['does not parse', 'const a = 1\nconst const', /SyntaxError: .* \(index\.js:2: const const\)$/],
    [
      'imports a name that is not there',
      'import { nothing } from "@setpoint/controller-runtime"',
      /SyntaxError: .*'nothing' \(index\.js:1\)$/,
    ],
    [
      'imports a missing file',
      'import "nowhere"',
      /cannot be imported: Error: Cannot find package 'nowhere'.*; is the name right, and has `npm install` been run/,
    ],
    [
      'omits a file extension',
      'import "./model"',
      /Cannot find module '.*model'.*; an ES module names the whole file, as in "\.\/model\.js"/,
    ],
    [
      'is CommonJS',
      'module.exports = require("x")',
      /ReferenceError: (module|require) is not defined in ES module scope.* \(index\.js:1\); a plugin is an ES module/,
    ],
    [
      'was compiled with its decorators unchanged',
      'const mark = () => {}\n@mark()\nclass A {}',
      /SyntaxError: .* \(index\.js:2: @mark\(\)\); decorators have to be compiled/,
    ],
    [
      'imports a subpath that the SDK lacks',
      'import "@setpoint/controller-runtime/secret"',
      /the SDK has no entry "@setpoint\/controller-runtime\/secret", imported from file:.*\/index\.js$/,
    ],
    [
      'exports nothing',
      'export const plugin = {}',
      /: index\.js has no default export; it needs `export default definePlugin/,
    ],
    [
      'exports something else',
      'export default { name: "x" }',
      /: the default export of index\.js was not made by definePlugin/,
    ],
    [
      'declares a bad plugin',
      minimal.replace('minimal', 'Not A Name'),
      /cannot be imported: TypeError: plugin name "Not A Name" .* \(index\.js:3\)$/,
    ],
  ])('is reported when it %s', async (_, text, message) => {
    const dir = await folder('demo', { 'package.json': esm, 'index.js': text })
    expect(await importRefusal(dir)).toMatchObject({ message: expect.stringMatching(message) })
  })

  it('is reported with the place of a syntax error, also in an imported module', async () => {
    const dir = await folder('demo', {
      'package.json': esm,
      'index.js': "import './lib/a.js'\nimport {\n  b,\n} from './lib/b.js'",
      'lib/a.js': "export * from './b.js'",
      'lib/b.js': '// fine\nexport const b = = 2',
    })
    expect(await importRefusal(dir)).toMatchObject({
      message: expect.stringMatching(/\(lib\/b\.js:2: export const b = = 2\)$/),
    })
  })

  it('is reported with the thrown error and its stack', async () => {
    const text = 'function fail() { throw new Error("why") }\nfail()'
    const dir = await folder('demo', { 'package.json': esm, 'index.js': text })
    expect(await importRefusal(dir)).toMatchObject({
      cause: 'why',
      stack: expect.stringMatching(/at fail .*index\.js:1/),
    })
  })

  it('is given up after a while if it never settles', async () => {
    const dir = await folder('demo', { 'package.json': esm, 'index.js': 'await new Promise(() => {})' })
    expect(await importRefusal(dir, 50)).toMatchObject({
      message: expect.stringContaining('index.js was not imported after 50 ms: a top-level await'),
    })
  })
})

describe('a folder', () => {
  it('is refused if it is not a folder or has no valid package.json', async () => {
    expect(await refusal(join(root, 'gone'))).toBe('there is no such folder')
    await writeFile(join(root, 'file'), '')
    expect(await refusal(join(root, 'file'))).toBe('is not a folder')
    expect(await refusal(await folder('empty', {}))).toMatch(/^has no package\.json/)
    expect(await refusal(await folder('broken', { 'package.json': '{' }))).toMatch(
      /^package\.json is not JSON/,
    )
    expect(await refusal(await folder('list', { 'package.json': '[]' }))).toMatch(/must hold a JSON object/)
    await mkdir(join(root, 'odd', 'package.json'), { recursive: true })
    expect(await refusal(join(root, 'odd'))).toMatch(/EISDIR/)
  })

  it('has its resources at the path in package.json', async () => {
    const setpoint = { resources: './dist/res' }
    const dir = await folder('demo', {
      'package.json': { ...esm, setpoint },
      'index.js': minimal,
      'dist/res/a.txt': '',
      'resources/b.txt': '',
    })
    expect(await load(dir)).toMatchObject([{ resourcesDir: join(dir, 'dist/res') }])
    await rm(join(dir, 'dist'), { recursive: true })
    expect(await refusal(dir)).toMatch(
      /^\.\/dist\/res \("setpoint\.resources" of package\.json\) is not a folder/,
    )
  })

  it('is refused for an invalid "setpoint" field', async () => {
    for (const setpoint of ['./res', { resources: 5 }, { resources: '' }]) {
      const dir = await folder('demo', { 'package.json': { ...esm, setpoint }, 'index.js': minimal })
      expect(await refusal(dir)).toMatch(/^package\.json: "setpoint/)
    }
  })

  it('has version 0.0.0 if its package.json has no semantic version, and may have no resources', async () => {
    const dir = await folder('demo', { 'package.json': { ...esm, version: '1.0' }, 'index.js': minimal })
    const [loaded] = await load(dir)
    expect(loaded).toMatchObject({ packageVersion: '0.0.0' })
    expect(loaded).not.toHaveProperty('resourcesDir')
  })
})

describe('the folders to load', () => {
  it('are those of the installation with a package.json, by name', async () => {
    for (const name of ['b', 'a', '.hidden', 'c/nested']) await folder(name, { 'package.json': '{' })
    await folder('without', { 'index.js': '' })
    await writeFile(join(root, 'file'), '')
    await symlink('a', join(root, 'link'))
    expect(await discoverPlugins(root)).toEqual(['a', 'b', 'link'].map(name => join(root, name)))
    expect(await discoverPlugins(join(root, 'gone'))).toEqual([])
  })

  it("are the repository's own plugins by default", async () => {
    const plugins = fileURLToPath(new URL('../../../plugins/', import.meta.url))
    expect(await discoverPlugins()).toContain(join(plugins, 'uptime'))
  })
})
