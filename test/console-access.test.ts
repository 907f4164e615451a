import { writeFile } from 'node:fs/promises'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Api } from './support/api.ts'
import {
  ConsolePage,
  findingsOfAxe,
  gadget,
  gadgets,
  openBrowser,
  shopPlugin,
} from './support/console-browser.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'

/** Who may do what in the console, and whether everyone can use it. */

const bags = '/apis/shop.example.com/v1/namespaces/default/bags'
/** Becomes a row of a table. */
const wide = Object.fromEntries(['one', 'two', 'three'].map(name => [name, `${name} `.repeat(40)]))

let browser: Browser
let users: Users<'ann' | 'vic' | 'nan'>
let server: RunningServer
let api: Api

beforeAll(async () => {
  browser = await openBrowser()
  users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'], nan: [] })
  const oidc = ['--oidc-issuer', 'https://login.example.com/realm', '--oidc-audience', 'console']
  server = await startSharedServer({ plugins: [shopPlugin], args: [...users.args, ...oidc] })
  api = users.api(server.url, 'ann')
  for (const name of ['a', 'b']) await api.post(gadgets, gadget(name))
  const deep = await api.post(bags, {
    ...{ apiVersion: 'shop.example.com/v1', kind: 'Bag' },
    metadata: {
      name: 'deep',
      labels: Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`l${at}`, 'x'])),
    },
    spec: {
      nested: Array.from({ length: 10 }).reduce<object>(deep => ({ levels: deep }), {}),
      records: [wide, wide],
    },
  })
  expect(deep.status).toBe(201)
})
afterAll(async () => {
  await browser?.close()
  await server?.stop()
  await users?.remove()
})

const openAs = (user: 'ann' | 'vic' | 'nan', path = '') =>
  ConsolePage.open(browser, server.url, path, { token: users.tokenOf(user) })

/** Chromium reports responses of 401 and 403. */
const otherErrors = ({ errors }: ConsolePage) => errors.filter(error => !/\b40[13]\b/.test(error))

it('asks for a token, keeps it in the tab alone, and forgets it at the end', async () => {
  const page = await ConsolePage.open(browser, server.url, gadgets)
  const form = page.page.getByRole('form', { name: 'Sign in' })
  const field = form.getByRole('textbox', { name: 'Token' })
  await field.fill('wrong')
  await form.getByRole('button', { name: 'Sign in', exact: true }).click()
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('token')])
  await field.fill(users.tokenOf('ann'))
  await form.getByRole('button', { name: 'Sign in', exact: true }).click()
  await expect.poll(() => page.names()).toEqual(['b', 'a'])
  await expect.poll(() => page.status('Connection')).toBe('Live')
  const kept = await page.page.evaluate(
    '({ local: localStorage.length, session: Object.keys(sessionStorage), cookie: document.cookie, href: location.href })',
  )
  expect(kept).toEqual({
    local: 0,
    session: ['setpoint.token'],
    cookie: '',
    href: `${server.url}/console${gadgets}`,
  })
  await page.button('Sign out').click()
  await form.waitFor()
  expect(await page.page.evaluate('sessionStorage.length')).toBe(0)
  expect(otherErrors(page)).toEqual([])
})

it('the session ends in words when its token does', async () => {
  const page = await openAs('ann', gadgets)
  await expect.poll(() => page.status('Connection')).toBe('Live')
  try {
    await writeFile(users.path, '[]')
    await page.page.getByRole('form', { name: 'Sign in' }).waitFor()
    expect(await page.page.getByRole('main').innerText()).toContain('session has ended')
    expect(await page.page.evaluate('sessionStorage.length')).toBe(0)
  } finally {
    await users.write()
  }
  await expect.poll(async () => (await api.get(gadgets)).status).toBe(200)
})

it('offers a button for each issuer, and lets pages reach issuers and nothing else', async () => {
  const page = await ConsolePage.open(browser, server.url)
  await page.button('Sign in with login.example.com').waitFor()
  const response = await fetch(`${server.url}/console`)
  const policy = response.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("connect-src 'self' https://login.example.com;")
  expect(policy).not.toMatch(/unsafe|\*/)
  expect(policy).toContain("frame-ancestors 'none'")
})

it('a viewer sees objects and is offered no write', async () => {
  const page = await openAs('vic', gadgets)
  await expect.poll(() => page.names()).toEqual(['b', 'a'])
  expect(await page.kinds()).not.toContain('secrets')
  expect(await page.kinds()).toContain('gadgets')
  expect(await page.button('Create').count()).toBe(0)
  await page.go(`${gadgets}/a#yaml`)
  await expect.poll(() => page.editor().innerText()).toContain('a@example.com')
  for (const name of ['Save', 'Check', 'Delete']) expect(await page.button(name).count()).toBe(0)
  await page.go('/api/v1/secrets')
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('forbidden')])
  expect(otherErrors(page)).toEqual([])
})

it('a person with a role in one namespace sees its kinds, and no other', async () => {
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: { name: 'bags' } }
  const inDefault = '/apis/rbac.authorization.k8s.io/v1/namespaces/default'
  await api.post(`${inDefault}/roles`, {
    ...role,
    rules: [{ apiGroups: ['shop.example.com'], resources: ['bags'], verbs: ['get', 'list', 'watch'] }],
  })
  await api.post(`${inDefault}/rolebindings`, {
    ...role,
    kind: 'RoleBinding',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'bags' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'nan' }],
  })
  const page = await openAs('nan')
  await expect.poll(() => page.kinds()).toEqual(['bags'])
  await page.page.getByRole('link', { name: 'bags' }).first().click()
  await expect.poll(() => page.path).toBe('/apis/shop.example.com/v1/namespaces/default/bags')
  await expect.poll(() => page.columns()).toEqual(['Name', 'Age'])
  expect(await page.alerts()).toEqual([])
  expect(otherErrors(page)).toEqual([])
})

it('a person whose role is in a namespace that only they know names it, and sees its kinds', async () => {
  const [namespace, rbac] = ['orchard', 'rbac.authorization.k8s.io']
  const inNamespace = `/apis/${rbac}/v1/namespaces/${namespace}`
  const role = { apiVersion: `${rbac}/v1`, kind: 'Role', metadata: { name: 'maps' } }
  await api.post('/api/v1/namespaces', {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespace },
  })
  await api.post(`${inNamespace}/roles`, {
    ...role,
    rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] }],
  })
  await api.post(`${inNamespace}/rolebindings`, {
    ...role,
    kind: 'RoleBinding',
    roleRef: { apiGroup: rbac, kind: 'Role', name: 'maps' },
    subjects: [{ apiGroup: rbac, kind: 'User', name: 'nan' }],
  })
  const page = await openAs('nan')
  const field = page.page.getByRole('combobox', { name: 'Namespace' })
  await field.fill(namespace)
  await field.press('Enter')
  await expect.poll(() => page.kinds()).toContain('configmaps')
  await page.page.getByRole('navigation', { name: 'Kinds' }).getByRole('link', { name: 'configmaps' }).click()
  await expect.poll(() => page.path).toBe(`/api/v1/namespaces/${namespace}/configmaps`)
  await expect.poll(() => page.columns()).toEqual(['Name', 'Data', 'Age'])
  expect(await page.alerts()).toEqual([])
  expect(otherErrors(page)).toEqual([])
})

describe.each(['light', 'dark'] as const)('in %s', colorScheme => {
  const pages = [
    ['the home', ''],
    ['a table', gadgets],
    ['an object', `${gadgets}/a`],
    ['the editor', `${gadgets}/a#yaml`],
    ['a deep object in a namespace', `${bags}/deep`],
    ['the editor of a long text', `${bags}/deep#yaml`],
    ['events', `${gadgets}/a#events`],
    ['the history', `${gadgets}/a#history`],
    ['the form', `${gadgets}/a#form`],
    ['the system', '/system'],
    ['the reference', '/reference#apis/shop.example.com/v1'],
    ['a stream', `${gadgets}?watch=true`],
  ] as const

  it.each(pages)('%s has nothing that axe-core finds', async (_, path) => {
    const page = await ConsolePage.open(browser, server.url, path, {
      token: users.tokenOf('ann'),
      colorScheme,
    })
    await page.page.getByRole('heading', { level: 1 }).waitFor()
    await expect.poll(() => page.status('Connection')).toBe('Live')
    if (path.endsWith('#yaml')) await page.editor().waitFor()
    expect(await findingsOfAxe(page)).toEqual([])
    expect(page.errors).toEqual([])
  })

  it('the dialogs and the sign-in have nothing that axe-core finds', async () => {
    const page = await ConsolePage.open(browser, server.url, gadgets, {
      token: users.tokenOf('ann'),
      colorScheme,
    })
    await page.button('Create').click()
    await page.dialog('Create Gadget').getByRole('textbox', { name: 'YAML' }).waitFor()
    expect(await findingsOfAxe(page)).toEqual([])
    const stranger = await ConsolePage.open(browser, server.url, '', { colorScheme })
    await stranger.page.getByRole('form', { name: 'Sign in' }).waitFor()
    expect(await findingsOfAxe(stranger)).toEqual([])
  })
})

it('every page fits on a phone without scrolling sideways', async () => {
  const viewport = { width: 390, height: 844 }
  const page = await ConsolePage.open(browser, server.url, '', { token: users.tokenOf('ann'), viewport })
  for (const path of [
    '',
    gadgets,
    `${gadgets}/a`,
    `${gadgets}/a#yaml`,
    `${gadgets}/a#history`,
    `${bags}/deep`,
    `${bags}/deep#yaml`,
    '/system',
    '/reference',
  ]) {
    await page.go(path)
    await page.page.reload()
    await page.page.getByRole('heading', { level: 1 }).waitFor()
    await expect.poll(() => page.status('Connection')).toBe('Live')
    expect(await page.page.evaluate('document.documentElement.scrollWidth'), path).toBe(390)
  }
})

it('the whole console can be used with the keyboard', async () => {
  const page = await openAs('ann', `${gadgets}/a`)
  await page.tab('Overview').focus()
  await page.page.keyboard.press('ArrowRight')
  await expect.poll(() => page.tab('YAML').getAttribute('aria-selected')).toBe('true')
  await page.button('Delete').focus()
  await page.page.keyboard.press('Enter')
  await page.dialog(/^Delete/).waitFor()
  // What has the focus at the moment at which the dialog goes.
  await page.page.evaluate(`new MutationObserver(() => {
    if (document.querySelector('dialog') === null) window.focused ??= document.activeElement.textContent
  }).observe(document.body, { subtree: true, childList: true })`)
  await page.page.keyboard.press('Escape')
  await expect.poll(() => page.page.evaluate('window.focused')).toBe('Delete')
})
