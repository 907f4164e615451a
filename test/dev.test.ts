import { mkdtemp, readFile, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient, defineModel, HttpTransport, Informer, Watcher } from '@setpoint/controller-runtime'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { freePort } from './support/ports.ts'
import { type Running, runProgram, spawnProgram } from './support/server.ts'
import { Watch } from './support/watch.ts'

/** `setpoint dev` with a plugin of the templates: what an author sees while editing. */

let folder: string
let dir: string
const running: Running[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-dev-'))
  dir = join(folder, 'shop')
})
afterEach(async () => {
  await Promise.all(running.splice(0).map(each => each.kill('SIGTERM')))
  await rm(folder, { recursive: true, force: true })
})

async function createPlugin(...flags: string[]): Promise<void> {
  expect(await runProgram(['create', 'plugin', 'shop', ...flags], { cwd: folder })).toMatchObject({ code: 0 })
}

/** As `npm install` would. */
const install = () =>
  symlink(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'))

async function start(): Promise<{ server: Running; url: string; api: Api }> {
  const port = await freePort()
  const server = spawnProgram(['dev', '--listen', `127.0.0.1:${port}`], { cwd: dir })
  running.push(server)
  const [, url = ''] = await server.says(/^setpoint listening on (\S+)$/m)
  return { server, url, api: new Api(url) }
}

async function edit(file: string, from: string, to: string): Promise<void> {
  const text = await readFile(join(dir, file), 'utf8')
  expect(text).toContain(from)
  await writeFile(join(dir, file), text.replace(from, to))
}

const site = (name: string) => readFile(join(dir, 'site', `${name}.html`), 'utf8').catch(() => undefined)

const pagesPath = '/apis/shop.example.com/v1/pages'

const pageBody = (name: string) => ({
  apiVersion: 'shop.example.com/v1',
  kind: 'Page',
  metadata: { name },
  spec: { title: name },
})

function createPage(api: Api, name: string): Promise<unknown> {
  return api.post(pagesPath, pageBody(name))
}

/** The kind of the template, for clients. */
const Page = defineModel({
  group: 'shop.example.com',
  version: 'v1',
  kind: 'Page',
  singular: 'page',
  plural: 'pages',
  schema: { spec: { type: 'object', properties: { title: { type: 'string' } } } },
})

test('a changed file reloads the plugin, and watches of other kinds stay open', async () => {
  await createPlugin()
  const { server, url } = await start()
  await expect.poll(() => site('welcome')).toContain('<h1>Welcome</h1>')
  const plugins = await Watch.open(url, '/apis/plugins.setpoint.dev/v1/plugins')
  await plugins.synced()
  await edit('src/site.js', '<h1>', '<h2>')
  await expect.poll(() => site('welcome')).toContain('<h2>Welcome</h1>')
  await edit('resources/extensions/welcome.yaml', 'title: Welcome', 'title: Hello')
  await edit('package.json', '"version": "0.1.0"', '"version": "0.2.0"')
  await expect.poll(() => site('welcome')).toContain('<h2>Hello</h1>')
  expect(server.stderr).toContain('files=["src/site.js"]')
  // The watch has lasted: its own close is the first.
  expect(await plugins.close()).toMatchObject({ code: 1005 })
})

test('a watcher of the kinds of the plugin misses and repeats nothing over reloads', async () => {
  await createPlugin()
  const { url, api } = await start()
  const transport = new HttpTransport({ server: url })
  const watcher = new Watcher(createClient(transport), Page)
  const informer = new Informer(Page, { client: createClient(transport) })
  const stopping = new AbortController()
  const seen: string[] = []
  const watching = (async () => {
    for await (const { type, version } of watcher.events(stopping.signal))
      if (type === 'applied') seen.push(version)
  })()
  informer.start()
  await informer.synced
  await expect.poll(() => watcher.counts.replaced).toBe(1)
  const written: string[] = []
  try {
    let heading = 'h1'
    for (let round = 1; round <= 3; round++) {
      const { opened } = watcher.counts
      await edit('src/site.js', `<${heading}>`, `<h${round + 1}>`)
      heading = `h${round + 1}`
      // Writes go on while the plugin is reloaded. The kind responds with 503 for a moment.
      for (let n = 0; watcher.counts.opened === opened; n++) {
        const page = pageBody(`p${round}-${n}`)
        await expect
          .poll(async () => {
            const { status, body } = await api.post(pagesPath, page)
            if (status === 201) written.push(String(fieldsOf(fieldsOf(body).metadata).version))
            return status
          })
          .toBe(201)
      }
    }
    await expect.poll(() => written.filter(version => !seen.includes(version))).toEqual([])
    // Resumed, not listed again.
    expect(watcher.counts.replaced).toBe(1)
    expect(seen).toEqual([...new Set(seen)].sort((left, right) => Number(left) - Number(right)))
    await expect.poll(() => informer.size).toBe(written.length + 1)
  } finally {
    stopping.abort()
    await watching
    await informer.stop()
    transport.close()
  }
})

test('it stores objects in .setpoint of the folder, and logs for people', async () => {
  await createPlugin()
  const { server } = await start()
  expect((await stat(join(dir, '.setpoint'))).isDirectory()).toBe(true)
  expect(server.stderr).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}the plugin has started plugin=shop/m)
})

test('a broken edit leaves the old code running and names the place; the next edit is loaded', async () => {
  await createPlugin()
  const { server, api } = await start()
  await edit('src/site.js', 'export function fileOf', 'const = 3\nexport function fileOf')
  await server.says(/src\/site\.js:\d+: const = 3/, 'stderr')
  await createPage(api, 'news')
  await expect.poll(() => site('news')).toContain('<h1>news</h1>')
  await edit('src/site.js', 'const = 3\n', '')
  await edit('src/site.js', '<h1>', '<h2>')
  await expect.poll(() => site('news')).toContain('<h2>news</h1>')
})

test('an error is shown with its lines of source in the terminal, and explained in the 500', async () => {
  await createPlugin()
  await edit(
    'src/site.js',
    'const file = fileOf',
    "if (page.metadata.name === 'bad') throw new Error('no page')\n      const file = fileOf",
  )
  await edit(
    'src/page.js',
    'schema: {',
    "validate: page => (page.spec.title === 'odd' ? true : []),\n  schema: {",
  )
  const { server, api } = await start()
  await createPage(api, 'bad')
  await server.says(
    /^ {4}src\/site\.js:\d+\n( +\d+ \|.*\n)+ {4}> \d+ \| +if \(page\.metadata\.name === 'bad'\)/m,
    'stderr',
  )
  // The frames of the program that has called the reconciler are left out.
  await server.says(
    /^ {4}Error: no page\n {8}at .*src\/site\.js:\d+:\d+\)?\n\n {4}src\/site\.js:\d+$/m,
    'stderr',
  )
  const { message } = refusalOf(await api.post(pagesPath, pageBody('odd')), 500, 'InternalError')
  expect(message).toMatch(
    /hook of plugin "shop" failed[\s\S]*\n\nit must return an array of violations or undefined, and returned true/,
  )
})

test('an error that the client throws is shown with the line of the plugin that called it', async () => {
  await createPlugin()
  await edit(
    'src/site.js',
    'import { Page }',
    "import { Secret } from '@setpoint/controller-runtime'\nimport { Page }",
  )
  await edit(
    'src/site.js',
    'const file = fileOf',
    "await client.createOrUpdate(Secret, 'key', draft => draft)\n      const file = fileOf",
  )
  const { server } = await start()
  await server.says(
    /TypeError: secrets are in namespaces: give the key <namespace>\/<name> instead of "key", or use client\.inNamespace\(namespace\)$/m,
    'stderr',
  )
  await server.says(/^ {8}at .*src\/site\.js:\d+:\d+\)?$/m, 'stderr')
  await server.says(/^ {4}> +\d+ \| +await client\.createOrUpdate\(Secret, 'key'/m, 'stderr')
})

test('a changed test does not reload the plugin', async () => {
  await createPlugin()
  const { server } = await start()
  await edit('src/plugin.test.js', 'import', '// Changed.\nimport')
  await edit('src/site.js', '<h1>', '<h2>')
  await expect.poll(() => site('welcome')).toContain('<h2>Welcome</h1>')
  expect(server.stderr.match(/files=.*/g)).toEqual(['files=["src/site.js"]'])
})

test('a plugin that is broken at the start is started by the edit that repairs it', async () => {
  await createPlugin()
  await edit('src/site.js', 'return `', 'return = `')
  const { server } = await start()
  await server.says(/failed to load a plugin/, 'stderr')
  await edit('src/site.js', 'return = `', 'return `')
  await expect.poll(() => site('welcome')).toContain('<h1>Welcome</h1>')
})

describe('a plugin in TypeScript', () => {
  beforeEach(() => createPlugin('--typescript'))

  test('is compiled before it starts and after each change', async () => {
    await install()
    await start()
    await expect.poll(() => site('welcome')).toContain('<h1>Welcome</h1>')
    await edit('src/site.ts', '<h1>', '<h2>')
    await expect.poll(() => site('welcome')).toContain('<h2>Welcome</h1>')
  })

  test('has stacks and lines of source of what its author wrote', async () => {
    await install()
    await edit(
      'src/site.ts',
      'const file =',
      "const bad: string = 'no page'\n      throw new Error(bad)\n      const file =",
    )
    const { server } = await start()
    await server.says(/^ {8}at .*src\/site\.ts:\d+:\d+\)?$/m, 'stderr')
    await server.says(/^ {4}src\/site\.ts:\d+\n[\s\S]*> \d+ \| +throw new Error\(bad\)$/m, 'stderr')
  })

  test('keeps running after an error of the compiler, which is printed with its place', async () => {
    await install()
    const { server, api } = await start()
    await edit('src/site.ts', 'export function fileOf', 'const wrong: string = 3\nexport function fileOf')
    await server.says(/src\/site\.ts\(\d+,7\): error TS2322/, 'stderr')
    await server.says(/the code that was loaded before keeps running/, 'stderr')
    await createPage(api, 'news')
    await expect.poll(() => site('news')).toContain('<h1>news</h1>')
    await edit('src/site.ts', 'wrong: string = 3', 'right: string = "3"\nvoid right')
    await edit('src/site.ts', '<h1>', '<h2>')
    await expect.poll(() => site('news')).toContain('<h2>news</h1>')
  })

  test('runs on with an error in a test, and is reloaded when only the test is repaired', async () => {
    await install()
    const { server } = await start()
    await edit('src/plugin.test.ts', 'import', 'const wrong: string = 3\nimport')
    await edit('src/site.ts', '<h1>', '<h2>')
    await server.says(/src\/plugin\.test\.ts\(\d+,7\): error TS2322/, 'stderr')
    await server.says(/the code that was loaded before keeps running/, 'stderr')
    await edit('src/plugin.test.ts', 'const wrong: string = 3\n', '')
    await expect.poll(() => site('welcome')).toContain('<h2>Welcome</h1>')
  })

  test.each([
    ['without its compiler', async () => {}, 'no compiler; run `npm install`'],
    [
      'without an output folder',
      async () => {
        await install()
        await edit('tsconfig.json', '"outDir": "dist",', '')
      },
      'needs "outDir"',
    ],
  ])('is refused %s', async (_what, prepare, says) => {
    await prepare()
    const { code, stdout, stderr } = await runProgram(['dev', dir, '--listen', '127.0.0.1:0'], {
      cwd: folder,
    })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(says)
  })
})

test('a folder without a plugin is refused', async () => {
  const { code, stderr } = await runProgram(['dev', folder])
  expect(code).toBe(2)
  expect(stderr).toContain('holds no plugin')
})

test('a tsconfig.json that only checks types needs no build', async () => {
  await createPlugin()
  await install()
  await writeFile(join(dir, 'tsconfig.json'), '{"compilerOptions":{"noEmit":true,"allowJs":true}}')
  await start()
  await expect.poll(() => site('welcome')).toContain('<h1>Welcome</h1>')
  await unlink(join(dir, 'node_modules'))
})
