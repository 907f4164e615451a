import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { ConsolePage, gadget, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
import { pluginsPath } from './support/kinds.ts'
import { startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'

/** The page about the server itself, and the dependents that objects have. */

let browser: Browser

beforeAll(async () => {
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
})

const region = (page: ConsolePage, name: string) => page.page.getByRole('region', { name })

it('the system page has the servers that have responded, their store and how far their caches are', async () => {
  const [first, second] = await Promise.all([
    startSharedServer({ plugins: [shopPlugin] }),
    startSharedServer({ plugins: [shopPlugin] }),
  ])
  try {
    const page = await ConsolePage.open(browser, first.url, '/system')
    const servers = region(page, 'Servers and store')
    await expect.poll(() => servers.innerText()).toMatch(/Store\s+embedded, .+ in use, .+ free on its disk/)
    const text = await servers.innerText()
    expect(text).toMatch(/Caches\s+all \d+ kinds are at version \d+/)
    expect(text).toContain('API and controllers')
    // As a load balancer would.
    await page.page.route('**/metrics', async route => {
      const response = await fetch(`${second.url}/metrics`)
      const started = 'process_start_time_seconds 1000'
      const body = (await response.text()).replace(/^process_start_time_seconds .*/m, started)
      await route.fulfill({ status: 200, contentType: 'text/plain', body })
    })
    await expect.poll(() => servers.getByRole('term').filter({ hasText: 'Server' }).count()).toBe(2)
    expect(page.errors).toEqual([])
    await page.close()
  } finally {
    await Promise.all([first.stop(), second.stop()])
  }
})

it('a server that is not ready says what it waits for, and how far its indexes are', async () => {
  const own = await startSharedServer({ plugins: [shopPlugin] })
  try {
    const page = await ConsolePage.open(browser, own.url)
    const progress = 'shop.example.com/gadgets: its indexes are being built, 48500 objects so far'
    const body = `[+]ping ok\n[-]startup failed: these plugins are still starting: shop\n[+]plugin/shop starting; ${progress}\nreadyz check failed\n`
    await page.page.route('**/readyz?verbose', route =>
      route.fulfill({ status: 503, contentType: 'text/plain', body }),
    )
    await page.page.getByRole('link', { name: 'System' }).click()
    await expect.poll(() => page.page.getByRole('main').innerText()).toContain(progress)
    expect(await page.alerts()).toEqual(['The server is not ready.'])
    await page.page.unroute('**/readyz?verbose')
    await expect.poll(() => page.alerts()).toEqual([])
    await page.close()
  } finally {
    await own.stop()
  }
})

it('a plugin is disabled and enabled on the system page, also the console if it is one of the plugins', async () => {
  const consolePlugin = fileURLToPath(new URL('../plugins/console', import.meta.url))
  const own = await startSharedServer({ plugins: [shopPlugin, consolePlugin] })
  try {
    const api = new Api(own.url)
    const page = await ConsolePage.open(browser, own.url, '/system')
    await page.button('Disable shop').click()
    await page.button('Enable shop').click()
    await expect.poll(async () => (await api.get(gadgets)).status).toBe(200)
    expect(await page.button('Disable console').count()).toBe(0)
    const statusOfConsole = async () => (await fetch(`${own.url}/console`)).status
    expect(await statusOfConsole()).toBe(200)
    await api.mergePatch(`${pluginsPath}/console`, { spec: { enabled: false } })
    await expect.poll(statusOfConsole).toBe(404)
    await api.mergePatch(`${pluginsPath}/console`, { spec: { enabled: true } })
    await expect.poll(statusOfConsole).toBe(200)
  } finally {
    await own.stop()
  }
})

it('what a person may not see is said in words', async () => {
  const users = await Users.make({ ann: ['setpoint:admins'], bob: [] })
  const own = await startSharedServer({ plugins: [shopPlugin], args: users.args })
  try {
    const api = users.api(own.url, 'ann')
    await api.post(gadgets, gadget('owner'))
    const rbac = '/apis/rbac.authorization.k8s.io/v1'
    await api.post(`${rbac}/clusterroles`, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'gadgets' },
      rules: [{ apiGroups: ['shop.example.com'], resources: ['gadgets'], verbs: ['*'] }],
    })
    await api.post(`${rbac}/clusterrolebindings`, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'gadgets' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'gadgets' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'bob' }],
    })
    const page = await ConsolePage.open(browser, own.url, '/system', { token: users.tokenOf('bob') })
    const main = page.page.getByRole('main')
    await expect.poll(() => main.innerText()).toContain('You may not list plugins.')
    expect(await main.innerText()).toContain('You may not list leases')
    await expect.poll(() => main.innerText()).toMatch(/the metrics cannot be read.+forbidden/s)
    await page.go(`${gadgets}/owner`)
    await page.button('Delete').click()
    const dialog = page.dialog(/^Delete/)
    await expect.poll(() => dialog.innerText()).toContain('No other object was found that goes with it.')
    expect(await dialog.innerText()).toMatch(/You may not list bags, .+ and \d+ other kinds/)
  } finally {
    await own.stop()
    await users.remove()
  }
})
