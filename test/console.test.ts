import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { ConsolePage, gadget, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
import { pluginsPath } from './support/kinds.ts'
import { type RunningServer, startServer, startSharedServer } from './support/server.ts'

/** The console, in a real browser, against a server without authentication. */

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
beforeEach(async () => {
  await api.delete(gadgets)
})

const open = (path = '') => ConsolePage.open(browser, server.url, path)
const create = (name: string, spec?: Readonly<Record<string, unknown>>) =>
  api.post(gadgets, gadget(name, spec))
const createBag = (name: string, spec: object) =>
  api.post('/apis/shop.example.com/v1/namespaces/default/bags', {
    apiVersion: 'shop.example.com/v1',
    kind: 'Bag',
    metadata: { name },
    spec,
  })
const hasNoErrors = (page: ConsolePage) => expect(page.errors).toEqual([])

it('browsers that ask for / are sent to the console, other clients are not', async () => {
  const browserRequest = await fetch(server.url, {
    headers: { accept: 'text/html,*/*;q=0.8' },
    redirect: 'manual',
  })
  expect([browserRequest.status, browserRequest.headers.get('location')]).toEqual([302, '/console'])
  expect((await fetch(server.url, { redirect: 'manual' })).status).toBe(404)
  const page = await open()
  expect(await page.heading()).toBe('Setpoint')
  await expect.poll(() => page.status('Connection')).toBe('Live')
  hasNoErrors(page)
})

it('an object is created from an empty list, and its page opens', async () => {
  const page = await open()
  await page.page
    .getByRole('navigation', { name: 'Kinds' })
    .getByRole('link', { name: 'gadgets', exact: true })
    .click()
  await expect.poll(() => page.heading()).toBe('gadgets')
  expect(page.path).toBe(gadgets)
  await expect.poll(() => page.columns()).toEqual(['Name', 'Email', 'N', 'Phase'])
  await page.button('Create').click()
  const dialog = page.dialog('Create Gadget')
  const text = dialog.getByRole('textbox', { name: 'YAML' })
  await expect.poll(() => text.innerText()).toContain('email:')
  expect(await text.innerText()).toContain("mode: 'on'")
  await text.fill(
    'apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata:\n  name: Wrong\nspec: {email: a}\n',
  )
  await dialog.getByRole('button', { name: 'Create' }).click()
  await expect.poll(() => dialog.getByRole('alert').innerText()).toContain('metadata.name')
  await text.fill(
    'apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata:\n  name: first\nspec:\n  email: a@example.com\n',
  )
  await dialog.getByRole('button', { name: 'Create' }).click()
  await expect.poll(() => page.path).toBe(`${gadgets}/first`)
  expect(await page.heading()).toBe('first')
  await expect.poll(() => page.status('Notices')).toContain('first')
  expect((await api.get(`${gadgets}/first`)).status).toBe(200)
  // Chromium reports the 422.
  expect(page.errors.filter(error => !error.includes('422'))).toEqual([])
})

it('changes are seen in two windows as they happen', async () => {
  const [left, right] = await Promise.all([open(gadgets), open(gadgets)])
  await expect.poll(() => left.status('Connection')).toBe('Live')
  await create('a')
  for (const page of [left, right]) await expect.poll(() => page.names()).toEqual(['a'])
  await api.mergePatch(`${gadgets}/a`, { spec: { n: 7 } })
  for (const page of [left, right]) await expect.poll(() => page.row('a').innerText()).toContain('7')
  await api.delete(`${gadgets}/a`)
  for (const page of [left, right]) await expect.poll(() => page.names()).toEqual([])
  for (const page of [left, right]) hasNoErrors(page)
})

it('rows stay where they are while the pointer is on one, and move when the person says so', async () => {
  await create('a')
  const page = await open(gadgets)
  await expect.poll(() => page.names()).toEqual(['a'])
  await page.row('a').hover()
  await create('b')
  await expect.poll(() => page.button('Update order').count()).toBe(1)
  expect(await page.names()).toEqual(['a'])
  await api.mergePatch(`${gadgets}/a`, { spec: { n: 5 } })
  await expect.poll(() => page.row('a').innerText()).toContain('5')
  await page.button('Update order').click()
  await expect.poll(() => page.names()).toEqual(['b', 'a'])
  expect(await page.button('Update order').count()).toBe(0)
  hasNoErrors(page)
})

it('rows stay where they are while one has the focus, and move when it leaves', async () => {
  await create('a')
  const page = await open(gadgets)
  await page.row('a').getByRole('link').focus()
  await create('b')
  await page.button('Update order').waitFor()
  expect(await page.names()).toEqual(['a'])
  await page.page.getByRole('textbox', { name: 'Filter' }).focus()
  await expect.poll(() => page.names()).toEqual(['b', 'a'])
  expect(await page.button('Update order').count()).toBe(0)
  hasNoErrors(page)
})

it('rows are sorted by a column, filtered, and turned by pages, and the address says so', async () => {
  for (const n of [1, 2, 3]) await create(`g${n}`, { n })
  const page = await open(gadgets)
  await expect.poll(() => page.names()).toEqual(['g3', 'g2', 'g1'])
  await page.button('N').click()
  await expect.poll(() => page.path).toBe(`${gadgets}?sort=spec.n,desc`)
  await page.button('N').click()
  await expect.poll(() => page.names()).toEqual(['g1', 'g2', 'g3'])
  expect(
    await page.page.getByRole('columnheader', { name: 'N', exact: true }).getAttribute('aria-sort'),
  ).toBe('ascending')
  await page.filter('spec.n>=000002')
  await expect.poll(() => page.names()).toEqual(['g2', 'g3'])
  await page.button('Clear').click()
  await expect.poll(() => page.names()).toEqual(['g1', 'g2', 'g3'])
  expect(await page.page.getByRole('textbox', { name: 'Filter' }).inputValue()).toBe('')
  await page.filter('colour=red')
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('colour')])
  await page.filter('fieldSelector=spec.n=000003&labelSelector=!x')
  await expect.poll(() => page.names()).toEqual(['g3'])
  expect(await page.alerts()).toEqual([])
  await page.go(`${gadgets}?size=2&sort=spec.n,asc`)
  await expect.poll(() => page.names()).toEqual(['g1', 'g2'])
  expect(await page.button('Previous page').isDisabled()).toBe(true)
  await page.button('Next page').click()
  await expect.poll(() => page.names()).toEqual(['g3'])
  expect(new URLSearchParams(page.path.split('?')[1]).get('page')).toBe('2')
  // Chromium reports the 400.
  expect(page.errors.filter(error => !error.includes('400'))).toEqual([])
})

it('a page past the end says so, and leads to the last page', async () => {
  for (const n of [1, 2, 3]) await create(`g${n}`)
  const page = await open(`${gadgets}?size=2&page=9`)
  const pages = page.page.getByRole('navigation', { name: 'Pages' })
  await expect.poll(() => pages.innerText()).toContain('none of 3')
  expect(await page.page.getByRole('main').innerText()).toContain('No objects on this page.')
  expect(await page.button('Next page').isDisabled()).toBe(true)
  await page.button('Previous page').click()
  await expect.poll(() => page.names()).toEqual(['g1'])
  hasNoErrors(page)
})

it('a deletion names what goes with it, waits for finalizers in sight, and leaves the page readable', async () => {
  const owner = (await create('owner')).body
  const { uid } = (owner as { metadata: { uid: string } }).metadata
  await api.post(gadgets, {
    ...gadget('child'),
    metadata: {
      name: 'child',
      ownerReferences: [{ apiVersion: 'shop.example.com/v1', kind: 'Gadget', name: 'owner', uid }],
    },
  })
  await api.mergePatch(`${gadgets}/owner`, { metadata: { finalizers: ['example.com/wait'] } })
  const page = await open(`${gadgets}/owner`)
  await page.button('Delete').click()
  const dialog = page.dialog(/^Delete/)
  await expect.poll(() => dialog.innerText()).toContain('Gadget child')
  expect(await dialog.innerText()).toContain('example.com/wait')
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await expect
    .poll(() => page.page.getByRole('status').allInnerTexts())
    .toContainEqual(expect.stringContaining('example.com/wait'))
  await api.mergePatch(`${gadgets}/owner`, { metadata: { finalizers: [] } })
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('has been deleted')])
  expect(await page.page.getByRole('tabpanel').innerText()).toContain('owner@example.com')
  hasNoErrors(page)
})

it('the history has each change since the page was opened, with its difference', async () => {
  await create('a', { n: 1 })
  const page = await open(`${gadgets}/a`)
  await page.tab('History').click()
  await api.mergePatch(`${gadgets}/a`, { spec: { n: 2 } })
  const panel = page.page.getByRole('tabpanel')
  await expect.poll(() => panel.innerText()).toContain('n: 2')
  expect(await panel.innerText()).toMatch(/−\s*n: 1/)
  hasNoErrors(page)
})

it('"Go to" finds kinds, and objects by the beginning of their names', async () => {
  await create('needle-1')
  const page = await open()
  await page.page.getByRole('combobox', { name: 'Go to' }).waitFor()
  await page.page.keyboard.press('Control+k')
  await page.page.keyboard.type('needle')
  await page.page.getByRole('option', { name: /needle-1/ }).waitFor()
  await page.page.keyboard.press('Enter')
  await expect.poll(() => page.path).toBe(`${gadgets}/needle-1`)
  await page.page.keyboard.press('Control+k')
  await page.page.keyboard.type('bags')
  await page.page.keyboard.press('Enter')
  await expect.poll(() => page.heading()).toBe('bags')
  hasNoErrors(page)
})

it('markup, right-to-left text, long texts and many labels are shown as text', async () => {
  const markup = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
  const labels = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`l${at}`, 'x']))
  const note = `${markup}שלום`
  await api.post(gadgets, {
    ...gadget('a', { note }),
    metadata: { name: 'a', labels, annotations: { 'a.example.com/b': markup } },
  })
  await create('long', { note: 'x'.repeat(1_000_000) })
  await createBag('bag', { [markup]: { deep: [markup, null, { a: 1 }] } })
  const page = await open(`${gadgets}/a`)
  await expect.poll(() => page.page.getByRole('tabpanel').innerText()).toContain(note)
  await page.tab('YAML').click()
  await expect.poll(() => page.editor().innerText()).toContain('l0: x')
  await page.go(`${gadgets}/long`)
  await page.button('Show all 1,000,000 characters').waitFor()
  await page.tab('YAML').click()
  await expect.poll(() => page.editor().innerText()).toContain('xxxx')
  await page.go('/apis/shop.example.com/v1/namespaces/default/bags/bag')
  await expect.poll(() => page.page.getByRole('tabpanel').innerText()).toContain(markup)
  await page.go(gadgets)
  await page.page.getByRole('checkbox', { name: 'More columns' }).check()
  await expect.poll(() => page.row('a').innerText()).toContain('<img')
  expect(await page.page.title()).not.toBe('owned')
  hasNoErrors(page)
})

it('kinds in namespaces are chosen by namespace', async () => {
  const bags = '/apis/shop.example.com/v1/namespaces/default/bags'
  await api.delete(bags)
  await createBag('here', {})
  const page = await open('/apis/shop.example.com/v1/bags')
  await expect.poll(() => page.names()).toEqual(['here'])
  expect(await page.columns()).toEqual(['Name', 'Namespace', 'Age'])
  await page.page.getByRole('combobox', { name: 'Namespace' }).selectOption('setpoint-system')
  await expect.poll(() => page.path).toBe('/apis/shop.example.com/v1/namespaces/setpoint-system/bags')
  await expect.poll(() => page.names()).toEqual([])
  hasNoErrors(page)
})

it('a stream shows events as they come, stops at a pause, and has the difference of each', async () => {
  await create('a', { n: 1 })
  const page = await open(`${gadgets}?watch=true`)
  const stream = page.page.getByRole('region', { name: 'Stream' })
  await expect.poll(() => stream.innerText()).toContain('Waiting')
  await expect.poll(() => page.status('Connection')).toBe('Live')
  await api.mergePatch(`${gadgets}/a`, { spec: { n: 2 } })
  await expect.poll(() => stream.innerText()).toContain('MODIFIED')
  await stream.locator('summary').first().click()
  await expect.poll(() => stream.innerText()).toMatch(/\+\s*n: 2/)
  await page.button('Pause').click()
  await api.mergePatch(`${gadgets}/a`, { spec: { n: 3 } })
  await expect.poll(() => stream.innerText()).toContain('2 events')
  expect(await stream.getByRole('listitem').count()).toBe(1)
  hasNoErrors(page)
})

it('a server that is killed is lost and found again, without a gap', async () => {
  const own = await startServer({ plugins: [shopPlugin] })
  try {
    const ownApi = new Api(own.url)
    await ownApi.post(gadgets, gadget('a'))
    const page = await ConsolePage.open(browser, own.url, gadgets)
    await expect.poll(() => page.names()).toEqual(['a'])
    await own.kill()
    await expect.poll(() => page.status('Connection')).toBe('Reconnecting')
    await own.restart()
    await new Api(own.url).post(gadgets, gadget('b'))
    await expect.poll(() => page.status('Connection')).toBe('Live')
    await expect.poll(() => page.names()).toEqual(['b', 'a'])
  } finally {
    await own.stop()
  }
})

it('says that the browser is offline', async () => {
  const page = await open()
  await expect.poll(() => page.status('Connection')).toBe('Live')
  await page.page.context().setOffline(true)
  await expect.poll(() => page.status('Connection')).toBe('Offline')
  await page.page.context().setOffline(false)
  await expect.poll(() => page.status('Connection')).toBe('Live')
})

it('works below a base path, and asks no other server for anything', async () => {
  const own = await startSharedServer({ plugins: [shopPlugin], args: ['--base-path', '/x'] })
  try {
    await new Api(own.url).post(gadgets, gadget('a'))
    const page = await ConsolePage.open(browser, own.url, '')
    const asked: string[] = []
    page.page.on('request', request => asked.push(request.url()))
    await page.go(`${gadgets}/a`)
    await expect.poll(() => page.heading()).toBe('a')
    await page.tab('YAML').click()
    await expect.poll(() => page.editor().innerText()).toContain('a@example.com')
    expect(asked.filter(url => !url.startsWith(`${own.url}/`))).toEqual([])
    const root = await fetch(own.url, { headers: { accept: 'text/html' }, redirect: 'manual' })
    expect(root.headers.get('location')).toBe('/x/console')
    hasNoErrors(page)
  } finally {
    await own.stop()
  }
})

it('a plugin adds a tab and cells for its kinds, and a newcomer finds why a probe fails', async () => {
  const own = await startSharedServer({
    plugins: [fileURLToPath(new URL('../plugins/uptime', import.meta.url))],
    env: { SETPOINT_PLUGIN_UPTIME_ALLOWED_NETWORKS: '127.0.0.1/32' },
  })
  try {
    const probes = '/apis/uptime.example.com/v1alpha1/probes'
    const probe = (name: string, url: string) => ({
      apiVersion: 'uptime.example.com/v1alpha1',
      kind: 'Probe',
      metadata: { name },
      spec: { url },
    })
    const ownApi = new Api(own.url)
    await ownApi.post(probes, probe('well', `${own.url}/livez`))
    await ownApi.post(probes, probe('broken', `${own.url}/nothing`))
    const page = await ConsolePage.open(browser, own.url)
    await page.page.getByRole('main').getByRole('link', { name: 'Probe' }).click()
    await expect.poll(() => page.row('well').innerText()).toMatch(/Up.*\d+ ms/s)
    await expect.poll(() => page.row('broken').innerText()).toContain('Down')
    await page.page.getByRole('link', { name: 'broken' }).click()
    await expect.poll(() => page.page.getByRole('tabpanel').innerText()).toContain('UnexpectedStatus')
    await page.tab('Latency').click()
    const panel = page.page.getByRole('tabpanel')
    await expect.poll(() => panel.innerText()).toContain('Down because of UnexpectedStatus')
    await panel.locator('canvas').waitFor()
    await expect.poll(() => panel.getByRole('listitem').count()).toBeGreaterThan(0)
    hasNoErrors(page)
  } finally {
    await own.stop()
  }
})

it('a kind whose plugin is disabled says so in words', async () => {
  const own = await startSharedServer({ plugins: [shopPlugin] })
  try {
    const page = await ConsolePage.open(browser, own.url, gadgets)
    await expect.poll(() => page.status('Connection')).toBe('Live')
    await new Api(own.url).mergePatch(`${pluginsPath}/shop`, { spec: { enabled: false } })
    await page.page.reload()
    await expect.poll(() => page.alerts()).toEqual([expect.stringMatching(/disabled|not served|enabled/)])
  } finally {
    await own.stop()
  }
})
