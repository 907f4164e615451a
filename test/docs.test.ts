import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { startServer } from './support/server.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

test.each(['render-errors.mjs', 'render-flags.mjs'])('the page of scripts/%s is up to date', async script => {
  await promisify(execFile)(process.execPath, [join(root, 'scripts', script), '--check'])
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
  const targets = linksOf(await readFile(index, 'utf8')).map(target => join(dirname(index), target))
  const missing = (await pages()).filter(
    page => page !== index && !targets.includes(page) && page.startsWith(join(root, 'docs')),
  )
  expect(missing.map(page => relative(root, page))).toEqual([])
})

test('the plugin of the guide runs as it stands there, from a folder outside of the repository', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'first-plugin-'))
  for (const [file, text] of await filesOfGuide()) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), text)
  }
  const server = await startServer({ plugins: [folder] })
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
    await expect.poll(() => page('welcome'), { timeout: 10_000 }).toContain('<h1>Welcome</h1>')
    await create('news', { title: 'News & more', weight: 20, tags: ['start', 'news'] })
    await expect.poll(() => page('news'), { timeout: 10_000 }).toContain('<h1>News &#38; more</h1>')
    expect((await create('other', { title: 'Welcome' })).status).toBe(409)
    const route = await fetch(`${server.url}/apis/console.api.pages.example.com/v1/tags/start`)
    expect(await route.json()).toEqual({ tag: 'start', titles: ['Welcome', 'News & more'] })
    await fetch(`${pagesUrl}/news`, { method: 'DELETE' })
    await expect.poll(async () => (await fetch(`${pagesUrl}/news`)).status, { timeout: 10_000 }).toBe(404)
    expect(await page('news')).toBeUndefined()
    const plugin = await fetch(`${server.url}/apis/plugins.setpoint.dev/v1/plugins/pages`)
    expect(await plugin.json()).toMatchObject({ status: { phase: 'Started', problems: [] } })
  } finally {
    await server.stop()
    await rm(folder, { recursive: true })
  }
})

/** Absolute paths of the pages that people read. */
async function pages(): Promise<string[]> {
  const docs = await readdir(join(root, 'docs'), { recursive: true })
  const plugins = await readdir(join(root, 'plugins'))
  return [
    'README.md',
    'CHANGELOG.md',
    ...docs.filter(file => file.endsWith('.md')).map(file => join('docs', file)),
    ...plugins.map(plugin => join('plugins', plugin, 'README.md')),
  ]
    .map(file => join(root, file))
    .filter(file => existsSync(file))
}

/** Targets of links that are no addresses, outside of code. */
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

/** The files that the guide has the reader write: code blocks with a name beside their language. */
async function filesOfGuide(): Promise<[file: string, text: string][]> {
  const text = await readFile(join(root, 'docs', 'guides', 'first-plugin.md'), 'utf8')
  const blocks = [...text.matchAll(/^```\w+ (\S+)\n([\s\S]*?)^```$/gm)]
  return blocks.map(([, file = '', content = '']) => [file, content])
}
