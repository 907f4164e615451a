import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { decodeStored } from '../apiserver/src/model/index.ts'
import { encodeHolder, reservationKey } from '../apiserver/src/registry/unique-index.ts'
import type { Storage } from '../apiserver/src/storage/index.ts'
import { Api } from './support/api.ts'
import { ConsolePage, gadget, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
import { EventFlood } from './support/event-flood.ts'
import { fieldsOf, numberOf } from './support/json.ts'
import { type RunningServer, startServer, startSharedServer } from './support/server.ts'
import { withStoreAt } from './support/store-peek.ts'

/** The console under load, in a real browser. */

let browser: Browser
let server: RunningServer
let api: Api

beforeAll(async () => {
  browser = await openBrowser()
  server = await startSharedServer({ plugins: [shopPlugin] })
  api = new Api(server.url)
})
afterAll(async () => {
  await browser?.close()
  await server?.stop()
})

it('draws at least 20 frames a second while 5,000 changes a second arrive', async () => {
  const names = Array.from({ length: 200 }, (_, at) => `g${at}`)
  for (const name of names) await api.post(gadgets, gadget(name))
  const objects = await Promise.all(
    names.map(async name => fieldsOf((await api.get(`${gadgets}/${name}`)).body)),
  )
  const event = (at: number) => {
    const object = objects[at % objects.length]
    const version = String(1_000_000 + at)
    return JSON.stringify({
      type: 'MODIFIED',
      object: {
        ...object,
        metadata: { ...fieldsOf(object?.metadata), version, resourceVersion: version },
        spec: { ...fieldsOf(object?.spec), n: at },
      },
    })
  }
  const flood = await EventFlood.open(server.url, gadgets, event, 5_000)
  try {
    const page = await ConsolePage.open(browser, flood.url, gadgets)
    await expect.poll(async () => (await page.names()).length).toBe(50)
    await expect.poll(() => flood.sent).toBeGreaterThan(5_000)
    const before = flood.sent
    const measured = fieldsOf(await page.page.evaluate(framesInTenSeconds))
    const frames = numberOf(measured.frames)
    const seconds = numberOf(measured.seconds)
    expect((flood.sent - before) / seconds).toBeGreaterThan(4_000)
    expect(frames / seconds).toBeGreaterThanOrEqual(20)
    // What is shown is what has arrived.
    const shown = Number((await page.row('g199').innerText()).split('\t')[2])
    expect(shown).toBeGreaterThan(before)
    expect(page.errors).toEqual([])
  } finally {
    flood.close()
  }
})

it('shows 100,000 objects by position, with few rows in the page, and follows each change', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-console-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  const first = await startServer({ plugins: [shopPlugin], dataDir })
  await new Api(first.url).post(gadgets, gadget('g000000', { n: 0 }))
  await first.stop()
  await withStoreAt({ dataDir }, storage => copyObject(storage, 100_000))
  const own = await startServer({ plugins: [shopPlugin], dataDir })
  try {
    const ownApi = new Api(own.url)
    const page = await ConsolePage.open(browser, own.url, `${gadgets}?sort=metadata.name,asc&size=500`)
    const pages = page.page.getByRole('navigation', { name: 'Pages' })
    await expect.poll(() => pages.innerText()).toContain('1–500 of 100,000')
    await expect.poll(() => page.kindCount('gadgets')).toBe('100,000')
    // Of a long page, only the rows in sight are there.
    expect((await page.names()).length).toBeLessThan(150)
    expect(await page.page.getByRole('table').getAttribute('aria-rowcount')).toBe('501')
    await page.page.mouse.wheel(0, 100_000)
    await expect.poll(async () => (await page.names()).at(-1)).toBe('g000499')
    await pages.getByRole('textbox', { name: 'Page' }).fill('200')
    await pages.getByRole('textbox', { name: 'Page' }).press('Enter')
    await expect.poll(() => pages.innerText()).toContain('99,501–100,000 of 100,000')
    await expect.poll(() => page.names()).toContain('g099999')
    await page.filter('spec.n>=099990')
    await expect.poll(async () => (await page.names()).length).toBe(10)
    await ownApi.delete(`${gadgets}/g099995`)
    await expect.poll(() => page.names()).not.toContain('g099995')
    await expect.poll(() => page.kindCount('gadgets')).toBe('99,999')
    await page.page.keyboard.press('Control+k')
    await page.page.keyboard.type('g0543')
    await page.page.getByRole('option', { name: /g054300/ }).waitFor()
    expect(page.errors).toEqual([])
  } finally {
    await own.stop()
  }
})

/** Stores so many objects like g000000, with their unique emails. Over HTTP this would take most of the test. */
async function copyObject(storage: Storage, count: number): Promise<void> {
  const resource = 'shop.example.com/gadgets'
  const { pair } = await storage.get(`objects/${resource}/g000000`)
  if (pair === undefined) throw new Error('there is nothing to copy')
  const text = pair.value.toString()
  const first = decodeStored(pair.value).object.metadata.uid
  const copy = (n: number) => {
    const name = `g${String(n).padStart(6, '0')}`
    const uid = randomUUID()
    const value = text.replaceAll('g000000', name).replace(first, uid).replace('"n":0', `"n":${n}`)
    const reservation = reservationKey({ resource }, 'spec.email', `${name}@example.com`, name)
    return storage.transact({
      compares: [],
      onSuccess: [
        { type: 'put', key: `objects/${resource}/${name}`, value: Buffer.from(value) },
        { type: 'put', key: reservation, value: encodeHolder({ name, uid }) },
      ],
    })
  }
  for (let n = 1; n < count; n += 1_000)
    await Promise.all(Array.from({ length: Math.min(1_000, count - n) }, (_, at) => copy(n + at)))
}

it('says that it reconnects when the server has been silent, and is live again when the server is back', async () => {
  const own = await startServer({ plugins: [shopPlugin] })
  try {
    const page = await ConsolePage.open(browser, own.url, gadgets)
    await expect.poll(() => page.status('Connection')).toBe('Live')
    process.kill(own.pid, 'SIGSTOP')
    await expect.poll(() => page.status('Connection')).toBe('Reconnecting')
    process.kill(own.pid, 'SIGCONT')
    await expect.poll(() => page.status('Connection')).toBe('Live')
  } finally {
    process.kill(own.pid, 'SIGCONT')
    await own.stop()
  }
})

const framesInTenSeconds = `new Promise(resolve => {
  const begun = performance.now()
  let frames = 0
  const draw = () => {
    frames++
    const seconds = (performance.now() - begun) / 1000
    if (seconds < 10) requestAnimationFrame(draw)
    else resolve({ frames, seconds })
  }
  requestAnimationFrame(draw)
})`
