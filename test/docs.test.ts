import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { defineModel } from '@setpoint/controller-runtime'
import { reconcilerConformance } from '@setpoint/controller-runtime/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { Api, Collection, objectOf } from './support/api.ts'
import { filesOfPage } from './support/doc-blocks.ts'
import { itemsOf } from './support/kinds.ts'
import { writeFiles } from './support/plugins.ts'
import { runProgram, spawnProgram, startServer } from './support/server.ts'
import { copyFixture } from './support/worlds.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

test.each(['render-errors.mjs', 'render-flags.mjs', 'render-chart.mjs', 'render-benchmarks.mjs'])(
  'the page of scripts/%s is up to date',
  async script => {
    await promisify(execFile)(process.execPath, [join(root, 'scripts', script), '--check'])
  },
)

test('every name that the SDK exports has a docstring', async () => {
  await promisify(execFile)(process.execPath, [join(root, 'scripts/render-sdk.mjs'), '--check'])
})

test('every relative link of the documentation leads to a file, and to a heading of it', async () => {
  const broken: string[] = []
  for (const page of await pages()) {
    for (const target of linksOf(await readFile(page, 'utf8'))) {
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : join(dirname(page), path)
      const found =
        existsSync(file) && (anchor === undefined || headingsOf(await readFile(file, 'utf8')).has(anchor))
      if (!found) broken.push(`${relative(root, page)}: ${target}`)
    }
  }
  expect(broken).toEqual([])
})

test('the documentation index leads to every page', async () => {
  const index = join(root, 'docs', 'README.md')
  const targetsIn = async (page: string) =>
    linksOf(await readFile(page, 'utf8')).map(target => join(dirname(page), target))
  // Runbooks have an index by symptom, and decisions one by area.
  const operations = await targetsIn(join(root, 'docs', 'operations', 'README.md'))
  const runbooks = operations.filter(page => page.startsWith(join(root, 'docs/operations/runbooks/')))
  const decisions = await targetsIn(join(root, 'docs', 'decisions', 'README.md'))
  const targets = [...(await targetsIn(index)), ...runbooks, ...decisions]
  const missing = (await pages()).filter(
    page => page !== index && !targets.includes(page) && page.startsWith(join(root, 'docs')),
  )
  expect(missing.map(page => relative(root, page))).toEqual([])
})

test('the threat model names the tests of each threat', async () => {
  const text = await readFile(join(root, 'docs/security/threat-model.md'), 'utf8')
  const rows = text.split('\n').filter(line => line.startsWith('| '))
  const threats = rows.filter(row => row.split(' | ').length === 3 && !/^\| (threat|---) /.test(row))
  expect(threats.length).toBeGreaterThan(30)
  for (const row of threats) expect(row).toMatch(/\.test\.ts\)/)
})

test.each(['first-plugin', 'testing'])(
  'the guide %s shows the files that `setpoint create` writes',
  async guide => {
    const folder = await createGuidePlugin()
    const own = ['src/plugin.js', 'src/route.test.js', 'src/tokens.js', 'src/tokens.test.js']
    const shown = Object.entries(await filesOfPage(`docs/guides/${guide}.md`))
    const written = shown.filter(([file]) => !own.includes(file))
    expect(written.length).toBeGreaterThan(2)
    for (const [file, text] of written) expect(text, file).toBe(await readFile(join(folder, file), 'utf8'))
    await rm(folder, { recursive: true })
  },
)

test("the first guide's plugin runs unchanged from a folder outside the repository", async () => {
  const folder = await createGuidePlugin()
  await writeFiles(folder, await filesOfPage('docs/guides/first-plugin.md'))
  const server = await startServer({ plugins: [folder], env: { SITE_DIR: join(folder, 'site') } })
  try {
    const page = (name: string) =>
      readFile(join(folder, 'site', `${name}.html`), 'utf8').catch(() => undefined)
    const pagesUrl = `${server.url}/apis/pages.example.com/v1/pages`
    const create = (name: string, spec: object) =>
      fetch(pagesUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          apiVersion: 'pages.example.com/v1',
          kind: 'Page',
          metadata: { name },
          spec,
        }),
      })
    await expect.poll(() => page('welcome')).toContain('<h1>Welcome</h1>')
    await create('news', { title: 'News & more', tags: ['start', 'news'] })
    await expect.poll(() => page('news')).toContain('<h1>News &#38; more</h1>')
    expect((await create('other', { title: 'Welcome' })).status).toBe(409)
    const route = await fetch(`${server.url}/apis/console.api.pages.example.com/v1/tags/start`)
    expect(await route.json()).toEqual({ tag: 'start', titles: ['News & more', 'Welcome'] })
    await fetch(`${pagesUrl}/news`, { method: 'DELETE' })
    await expect.poll(async () => (await fetch(`${pagesUrl}/news`)).status).toBe(404)
    expect(await page('news')).toBeUndefined()
    const plugin = await fetch(`${server.url}/apis/plugins.setpoint.dev/v1/plugins/pages`)
    expect(await plugin.json()).toMatchObject({ status: { phase: 'Started', problems: [] } })
  } finally {
    await server.stop()
    await rm(folder, { recursive: true })
  }
})

test("the packaging guide's plugin runs from its archive with its settings, and is replaced by the next one", async () => {
  const folder = await mkdtemp(join(tmpdir(), 'packaging-'))
  await writeFiles(folder, await filesOfPage('docs/guides/packaging.md'))
  await writeFile(join(folder, 'token'), 'a-secret-token')
  const pack = async () => {
    await promisify(execFile)('npm', ['pack'], { cwd: folder })
    const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
    await promisify(execFile)('ln', ['-sfn', `acme-greetings-${version}.tgz`, 'greetings.tgz'], {
      cwd: folder,
    })
  }
  await pack()
  const running = spawnProgram(['serve', '--config', 'setpoint.yaml', '--listen', '127.0.0.1:0'], {
    cwd: folder,
  })
  try {
    const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
    const greeting = await fetch(`${url}/apis/console.api.greetings.example.com/v1/greeting`)
    expect(await greeting.json()).toEqual({
      greeting: 'Good morning',
      languages: ['en', 'de'],
      hasToken: true,
    })
    const plugin = async () =>
      objectOf(await new Api(url).get('/apis/plugins.setpoint.dev/v1/plugins/greetings')).status
    expect(await plugin()).toMatchObject({ phase: 'Started', version: '1.2.0' })
    const manifest = await readFile(join(folder, 'package.json'), 'utf8')
    await writeFile(join(folder, 'package.json'), manifest.replace('1.2.0', '1.3.0'))
    await pack()
    await fetch(`${url}/apis/plugins.setpoint.dev/v1/plugins/greetings`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/merge-patch+json' },
      body: '{"spec":{"reload":"1"}}',
    })
    await expect.poll(plugin).toMatchObject({ phase: 'Started', version: '1.3.0' })
  } finally {
    await running.kill('SIGTERM')
    await rm(folder, { recursive: true })
  }
})

test('the client on the watch page shows every change once across a restart of the server', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'follow-'))
  const { 'follow.js': code = '' } = await filesOfPage('docs/reference/watch.md')
  const file = join(folder, 'follow.mjs')
  await writeFile(file, code)
  // Node 20 has no WebSocket of its own.
  vi.stubGlobal('WebSocket', WebSocket)
  const plugin = await copyFixture('items-plugin')
  const server = await startServer({ plugins: [plugin] })
  const { follow } = await import(file)
  const story: string[] = []
  const items = itemsOf(new Api(server.url))
  const stop = follow(`${server.url.replace('http', 'ws')}${items.path}`, {
    onEvent: ({ type, object }: { type: string; object: { metadata: { name?: string } } }) => {
      if (type !== 'BOOKMARK') story.push(`${type} ${object.metadata.name}`)
    },
    onReset: () => story.push('RESET'),
  })
  try {
    await items.create('a', {})
    await expect.poll(() => story).toEqual(['RESET', 'ADDED a'])
    await items.create('b', {})
    await expect.poll(() => story.length).toBe(3)
    await server.restart()
    await items.create('c', {})
    await expect.poll(() => story).toEqual(['RESET', 'ADDED a', 'ADDED b', 'ADDED c'])
  } finally {
    stop()
    vi.unstubAllGlobals()
    await server.stop()
    await Promise.all([folder, plugin].map(dir => rm(dir, { recursive: true })))
  }
})

test('the releases of the guide to versions follow each other on one store', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'versions-'))
  await writeFiles(folder, await filesOfPage('docs/guides/versions.md'))
  await mkdir(join(folder, 'node_modules', '@setpoint'), { recursive: true })
  await symlink(
    join(root, 'controller-runtime'),
    join(folder, 'node_modules', '@setpoint', 'controller-runtime'),
  )
  const { stdout } = await promisify(execFile)(process.execPath, ['--test', '--test-reporter=tap'], {
    cwd: join(folder, 'release-2'),
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
  })
  expect(stdout).toMatch(/^# pass 1$/m)
  const release = (number: number) => ({ plugins: [join(folder, `release-${number}`)] })
  const server = await startServer(release(1))
  try {
    const gadgets = (version: string) =>
      new Collection(new Api(server.url), `demo.example.com/${version}`, 'Gadget', 'gadgets')
    await gadgets('v1beta1').create('a', { size: '12 mm' })
    for (const number of [2, 3]) {
      await server.restart(release(number))
      expect((await gadgets('v1').read('a')).spec).toEqual({ size: 12, unit: 'mm' })
      expect((await gadgets('v1beta1').read('a')).spec).toEqual({ size: '12 mm' })
    }
    const { headers } = await new Api(server.url).get(gadgets('v1beta1').path)
    const guide = await readFile(join(root, 'docs', 'guides', 'versions.md'), 'utf8')
    expect(guide).toContain(`Warning: ${headers.get('warning')}`)
    const plugin = () => new Api(server.url).get('/apis/plugins.setpoint.dev/v1/plugins/gadgets')
    await expect
      .poll(async () => (await plugin()).body)
      .toMatchObject({ status: { migrations: [{ to: 'v1', total: 1, done: 1, failed: 0 }] } })
  } finally {
    await server.stop()
    await rm(folder, { recursive: true })
  }
})

describe('the tests of the guide to testing', () => {
  const run = (folder: string, ...flags: string[]) =>
    promisify(execFile)(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...flags], {
      cwd: folder,
      // Otherwise the plugin's test runner considers itself part of this run, and colours its output.
      env: { ...withoutVitest, NO_COLOR: '1' },
    }).catch((error: { stdout: string; stderr: string }) => error)
  let folder: string

  beforeAll(async () => {
    folder = await createGuidePlugin()
    await writeFiles(folder, await filesOfPage('docs/guides/first-plugin.md'))
    await writeFiles(folder, await filesOfPage('docs/guides/testing.md'))
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  test('pass unchanged in a folder outside the repository', async () => {
    const { stdout } = await run(folder)
    expect(stdout).toMatch(/Tests +32 passed \(32\)$/m)
  })

  test("find the guide's planted fault and print the guide's output", async () => {
    const site = await readFile(join(folder, 'src/site.js'), 'utf8')
    await writeFile(join(folder, 'src/site.js'), site.replace(', { force: true }', ''))
    const { stderr } = await run(folder, '-t', 'after a crash')
    const guide = await readFile(join(root, 'docs', 'guides', 'testing.md'), 'utf8')
    const report = /^```text\n([\s\S]*?)^```$/m.exec(guide)?.[1]?.trim().split('\n') ?? []
    expect(report).toHaveLength(3)
    for (const line of report) expect(stderr).toContain(line.trim().replace(/\.\.\.$/, ''))
  })
})

test('the reference has every case of the reconciler conformance', async () => {
  const page = await readFile(join(root, 'docs', 'reference', 'sdk', 'testing.md'), 'utf8')
  const names = { group: 'any.example.com', version: 'v1', kind: 'Any', singular: 'any', plural: 'anys' }
  const { cases } = reconcilerConformance({
    model: defineModel({ ...names, schema: { spec: { type: 'object' } } }),
    outside: () => undefined,
    objects: () => [],
    isConverged: () => true,
    isCleanedUp: () => true,
    outages: { any: () => () => {} },
  })
  const told = [...page.matchAll(/^\| (it .+?) *\|/gm)].map(([, name]) => name)
  expect(told).toEqual(expect.arrayContaining(cases.map(({ name }) => name)))
  expect(told).toHaveLength(cases.length)
})

test('every test that the conformance page names exists', async () => {
  const page = join(root, 'docs', 'maintainers', 'sdk-conformance.md')
  const text = await readFile(page, 'utf8')
  expect([...text.matchAll(/^\| (\d+) \|/gm)].map(([, number]) => Number(number))).toEqual(
    Array.from({ length: 60 }, (_, at) => at + 1),
  )
  const missing: string[] = []
  for (const [, file = '', name = ''] of text.matchAll(/\]\(([^)]+\.ts)\): "([^"]+)"/g)) {
    const source = await readFile(join(dirname(page), file), 'utf8')
    if (!source.includes(name)) missing.push(`${file}: ${name}`)
  }
  expect(missing).toEqual([])
})

/** The environment without that of this test runner. */
const withoutVitest = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV|NODE_OPTIONS)/.test(name)),
)

/** Creates the plugin of the guides with the program. Returns its folder. */
async function createGuidePlugin(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'guide-'))
  expect(await runProgram(['create', 'plugin', 'pages', '--dir', folder])).toMatchObject({ code: 0 })
  return folder
}

/** Absolute paths of the pages that people read. */
async function pages(): Promise<string[]> {
  const docs = await readdir(join(root, 'docs'), { recursive: true })
  const plugins = await readdir(join(root, 'plugins'))
  return [
    'README.md',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...docs.filter(file => file.endsWith('.md')).map(file => join('docs', file)),
    'charts/setpoint/README.md',
    ...plugins.map(plugin => join('plugins', plugin, 'README.md')),
  ]
    .map(file => join(root, file))
    .filter(file => existsSync(file))
}

/** Link targets that are not URLs, outside code. */
function linksOf(text: string): string[] {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`(?!\])/g, '')
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter(target => !/^[a-z]+:/.test(target))
}

/** Anchors of a page's headings, as GitHub makes them. */
function headingsOf(text: string): Set<string> {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '')
  return new Set(
    [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    ),
  )
}
