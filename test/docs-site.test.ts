import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Chromium, type Page } from './support/chromium.ts'

/** The site of the documentation, as `npm run docs:build` builds it, and in a browser. */

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
}

let folder: string
/** The text of every page, by its path from the root of the site. */
let pages: Map<string, string>
let server: Server
let url: string
let browser: Chromium

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-site-'))
  await run(process.execPath, ['scripts/render-sdk.mjs'], { cwd: root })
  const program = join(root, 'node_modules/vitepress/bin/vitepress.js')
  // VitePress fails for a link to a page that does not exist.
  await run(process.execPath, [program, 'build', 'docs', '--outDir', folder], { cwd: root })
  const files = (await readdir(folder, { recursive: true })).filter(file => file.endsWith('.html'))
  const read = files.map(
    async file => [`/${file}`, await readFile(join(folder, file), 'utf8')] as [string, string],
  )
  pages = new Map(await Promise.all(read))
  server = createServer(async ({ url: path = '/' }, response) => {
    const { pathname } = new URL(path, 'http://site')
    const file = join(folder, pathname.endsWith('/') ? `${pathname}index.html` : pathname)
    try {
      const content = await readFile(file)
      response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' })
      response.end(content)
    } catch {
      response.writeHead(404).end()
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the site has no port')
  url = `http://127.0.0.1:${address.port}`
  browser = await Chromium.open()
})
afterAll(async () => {
  await browser?.close()
  server?.closeAllConnections()
  server?.close()
  await rm(folder, { recursive: true, force: true })
})

test('the site has every page of the documentation, and every name of the SDK', async () => {
  const docs = await readdir(join(root, 'docs'), { recursive: true })
  const sources = docs.filter(file => file.endsWith('.md'))
  expect(sources.length).toBeGreaterThan(80)
  const expected = sources.map(file => `/${file.replace(/README\.md$/, 'index.md').replace(/md$/, 'html')}`)
  expect(expected.filter(page => !pages.has(page))).toEqual([])
  expect(pages.get('/reference/sdk/names.html')).toContain('id="defineplugin"')
})

test('every link of the site leads to a page, and to a heading of it', () => {
  const dead: string[] = []
  for (const [page, html] of pages) {
    for (const [, href = ''] of html.matchAll(/<a\b[^>]*\bhref="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(href)) continue
      const { pathname, hash } = new URL(href.replaceAll('&amp;', '&'), `http://site${page}`)
      const target = pages.get(pathname.endsWith('/') ? `${pathname}index.html` : asPage(pathname))
      const isThere =
        target !== undefined && (hash === '' || target.includes(`id="${decodeURIComponent(hash.slice(1))}"`))
      if (!isThere) dead.push(`${page}: ${href}`)
    }
  }
  expect(dead).toEqual([])
})

const asPage = (path: string) => (path.endsWith('.html') ? path : `${path}.html`)

/** Returns the origins of everything that a page has loaded. */
const originsOf = (page: Page) =>
  page.evaluate(
    `[...new Set(performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin))]`,
  )

test('a reader finds a page by a word in it, without a request to another origin', async () => {
  const page = await browser.page(`${url}/`)
  // The button does nothing until the page's code has run.
  const opened = `document.querySelector('#localsearch-input') !== null`
  const open = `${opened} || (document.querySelector('.VPNavBarSearch button').click(), ${opened})`
  await expect.poll(() => page.evaluate(open)).toBe(true)
  await page.evaluate(`{
    const input = document.querySelector('#localsearch-input')
    input.value = 'foregroundDeletion'
    input.dispatchEvent(new Event('input'))
  }`)
  const results = () =>
    page.evaluate(`[...document.querySelectorAll('.results a')].map(({ pathname }) => pathname)`)
  await expect.poll(results).toContain('/reference/deletion.html')
  expect(await originsOf(page)).toEqual([url])
  expect(page.errors).toEqual([])
})

test('diagrams are drawn, in the colours of the mode', async () => {
  const page = await browser.page(`${url}/concepts.html`)
  const source = await readFile(join(root, 'docs/concepts.md'), 'utf8')
  const drawn = await page.texts('.diagram svg')
  expect(drawn).toHaveLength(source.match(/^```mermaid$/gm)?.length ?? -1)
  expect(JSON.stringify(drawn)).toContain('ADDED shop (41)')
  const colour = () =>
    page.evaluate(`getComputedStyle(document.querySelector('.diagram text')).getPropertyValue('fill')`)
  const light = await colour()
  await page.evaluate(`document.documentElement.classList.add('dark')`)
  await expect.poll(colour).not.toBe(light)
  expect(await originsOf(page)).toEqual([url])
  expect(page.errors).toEqual([])
})

test.each(['/index.html', '/concepts.html', '/reference/flags.html', '/reference/sdk/names.html'])(
  'on a phone, %s is not wider than the screen',
  async path => {
    const page = await browser.page(`${url}${path}`)
    await page.onPhone(390)
    await expect
      .poll(() => page.evaluate(`[innerWidth, document.documentElement.scrollWidth]`))
      .toEqual([390, 390])
  },
)
