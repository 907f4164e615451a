/**
 * Writes the pictures of the console for README.md and docs/console.md into docs/images: one of each page, of a server with the
 * plugins of this repository and a probe that fails. Run it after the build.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { findChromium } from './chromium.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const images = join(root, 'docs/images')
const probes = '/apis/uptime.example.com/v1alpha1/probes'

/** Starts a server, and resolves with its URL and a function that stops it. */
async function startServer() {
  const data = await mkdtemp(join(tmpdir(), 'setpoint-screenshots-'))
  const args = ['serve', '--listen', '127.0.0.1:8090', '--data-dir', join(data, 'store')]
  const env = {
    ...process.env,
    SETPOINT_PLUGIN_UPTIME_ALLOWED_NETWORKS: '127.0.0.1/32',
    UPTIME_JOURNAL_DIR: join(data, 'journal'),
  }
  const child = spawn(process.execPath, [join(root, 'apiserver/bin/setpoint.js'), ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env,
  })
  child.stdout.setEncoding('utf8')
  let said = ''
  while (!said.includes('console at ')) said += (await once(child.stdout, 'data'))[0]
  return {
    url: /listening on (\S+)/.exec(said)?.[1] ?? '',
    async stop() {
      child.kill()
      await once(child, 'exit')
      await rm(data, { recursive: true, force: true })
    },
  }
}

/** @param {string} url @param {object} spec */
async function createProbe(url, name, spec) {
  const probe = { apiVersion: 'uptime.example.com/v1alpha1', kind: 'Probe', metadata: { name }, spec }
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}${probes}`, { method: 'POST', headers, body: JSON.stringify(probe) })
  if (!response.ok) throw new Error(await response.text())
}

await mkdir(images, { recursive: true })
const server = await startServer()
const browser = await chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox'] })
try {
  await createProbe(server.url, 'shop', { url: 'http://127.0.0.1:8099/', intervalSeconds: 5, tags: ['shop'] })
  await createProbe(server.url, 'shop-api', {
    url: `${server.url}/nothing`,
    intervalSeconds: 5,
    tags: ['shop'],
  })
  await createProbe(server.url, 'intranet', { url: `${server.url}/livez`, intervalSeconds: 5 })

  /** @param {string} name @param {string} path @param {import('playwright-core').BrowserContextOptions} [options] */
  const take = async (name, path, options = {}, prepare = async () => {}) => {
    const context = await browser.newContext({
      viewport: { width: 1200, height: 720 },
      locale: 'en-GB',
      reducedMotion: 'reduce',
      ...options,
    })
    const page = await context.newPage()
    await page.goto(`${server.url}/console${path}`)
    await page.getByRole('status', { name: 'Connection' }).getByText('Live').waitFor()
    await page.getByRole('heading', { level: 1 }).waitFor()
    await prepare(page)
    // Counts and charts.
    await page.waitForTimeout(1_000)
    await page.screenshot({ path: join(images, `console-${name}.png`) })
    await context.close()
  }
  const phone = { viewport: { width: 390, height: 780 }, isMobile: true }
  // Until there is something to see.
  await new Promise(resolve => setTimeout(resolve, 30_000))
  await take('table', probes)
  await take('object', `${probes}/shop`)
  await take('form', `${probes}/shop#form`, {}, page => page.getByRole('group', { name: 'Form' }).waitFor())
  await take('yaml', `${probes}/shop#yaml`, {}, page => page.getByRole('textbox', { name: 'YAML' }).waitFor())
  await take('latency', `${probes}/intranet#plugin-0`)
  await take('dark', `${probes}/shop`, { colorScheme: 'dark' })
  await take('phone', probes, phone)
  await take('reference', '/reference#apis/uptime.example.com/v1alpha1')
  await take('system', '/system', {}, page => page.waitForTimeout(25_000))
} finally {
  await browser.close()
  await server.stop()
}
