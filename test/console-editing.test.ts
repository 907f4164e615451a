import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { ConsolePage, gadget, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'

/** Objects as YAML in the console, alone and while others change them. */

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
const hasNoErrors = (page: ConsolePage) => expect(page.errors).toEqual([])

it('a text is checked without being saved, and saved', async () => {
  await create('a')
  const page = await open(`${gadgets}/a#yaml`)
  await expect.poll(() => page.editor().innerText()).toContain('a@example.com')
  const text = await page.editor().innerText()
  await page.editor().fill(text.replace('a@example.com', `${'x'.repeat(65)}`))
  await page.button('Check').click()
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('spec.email')])
  await page.editor().fill(text.replace('a@example.com', 'b@example.com'))
  await page.button('Check').click()
  await expect.poll(() => page.status('Notices')).toContain('valid')
  expect((await api.get(`${gadgets}/a`)).body).toMatchObject({ spec: { email: 'a@example.com' } })
  await page.button('Save').click()
  await expect.poll(() => page.status('Notices')).toContain('Saved')
  expect((await api.get(`${gadgets}/a`)).body).toMatchObject({ spec: { email: 'b@example.com' } })
  expect(page.errors.filter(error => !error.includes('422'))).toEqual([])
})

describe('what is typed stays', () => {
  it('while a save is on its way', async () => {
    await create('a')
    const page = await open(`${gadgets}/a#yaml`)
    await expect.poll(() => page.editor().innerText()).toContain('a@example.com')
    const text = await page.editor().innerText()
    await page.editor().fill(text.replace('a@example.com', 'b@example.com'))
    await page.page.route(`**${gadgets}/a`, async route => {
      await page.editor().fill(text.replace('a@example.com', 'c@example.com'))
      await route.continue()
    })
    await page.button('Save').click()
    await expect.poll(() => page.status('Notices')).toContain('Saved')
    expect((await api.get(`${gadgets}/a`)).body).toMatchObject({ spec: { email: 'b@example.com' } })
    expect(await page.editor().innerText()).toContain('c@example.com')
    await page.page.unroute(`**${gadgets}/a`)
    await page.button('Save').click()
    await expect
      .poll(async () => (await api.get(`${gadgets}/a`)).body)
      .toMatchObject({ spec: { email: 'c@example.com' } })
    hasNoErrors(page)
  })

  it('at once after it', async () => {
    await create('a')
    const page = await open(`${gadgets}/a#yaml`)
    await expect.poll(() => page.editor().innerText()).toContain('a@example.com')
    await page.editor().fill((await page.editor().innerText()).replace('a@example.com', 'b@example.com'))
    const typed = page.page.evaluate(typesWhenSaved)
    await page.button('Save').click()
    await typed
    expect(await page.editor().innerText()).toContain('#typed')
    hasNoErrors(page)
  })

  it('while another tab is looked at', async () => {
    await create('a')
    const page = await open(`${gadgets}/a#yaml`)
    await expect.poll(() => page.editor().innerText()).toContain('a@example.com')
    await page.editor().fill((await page.editor().innerText()).replace('a@example.com', 'b@example.com'))
    await page.tab('Overview').click()
    await expect.poll(() => page.page.getByRole('tabpanel').innerText()).toContain('a@example.com')
    await page.tab('YAML').click()
    expect(await page.editor().innerText()).toContain('b@example.com')
    await page.button('Save').click()
    await expect
      .poll(async () => (await api.get(`${gadgets}/a`)).body)
      .toMatchObject({ spec: { email: 'b@example.com' } })
    hasNoErrors(page)
  })

  /** Types in the moment in which the page says that it has saved, and waits until it has drawn what follows. */
  const typesWhenSaved = `new Promise(resolve => {
    const notices = document.querySelector('[aria-label="Notices"]')
    const editor = document.querySelector('[role=textbox][aria-label="YAML"]')
    const observer = new MutationObserver(() => {
      if (!notices.textContent.includes('Saved')) return
      observer.disconnect()
      editor.focus()
      document.execCommand('insertText', false, '#typed')
      const later = frames => (frames === 0 ? resolve() : requestAnimationFrame(() => later(frames - 1)))
      later(10)
    })
    observer.observe(notices, { childList: true, subtree: true, characterData: true })
  })`
})

describe('when somebody else has changed the object meanwhile', () => {
  it('other fields are merged, and saved only when the person says so', async () => {
    await create('a', { n: 1 })
    const page = await open(`${gadgets}/a#yaml`)
    await expect.poll(() => page.editor().innerText()).toContain('n: 1')
    await page.editor().fill((await page.editor().innerText()).replace('a@example.com', 'mine@example.com'))
    await api.mergePatch(`${gadgets}/a`, { spec: { n: 2 } })
    await page.button('Save').click()
    await expect.poll(() => page.alerts()).toEqual([expect.stringMatching(/modified|version/)])
    await page.button('Merge').click()
    await expect.poll(() => page.editor().innerText()).toContain('n: 2')
    expect(await page.editor().innerText()).toContain('mine@example.com')
    expect((await api.get(`${gadgets}/a`)).body).toMatchObject({ spec: { email: 'a@example.com' } })
    await page.button('Save').click()
    await expect
      .poll(async () => (await api.get(`${gadgets}/a`)).body)
      .toMatchObject({ spec: { email: 'mine@example.com', n: 2 } })
    expect(page.errors.filter(error => !error.includes('409'))).toEqual([])
  })

  it('a field that both have changed stands with both values, and must be decided', async () => {
    await create('a', { n: 1 })
    const page = await open(`${gadgets}/a#yaml`)
    await expect.poll(() => page.editor().innerText()).toContain('n: 1')
    await page.editor().fill((await page.editor().innerText()).replace('n: 1', 'n: 11'))
    await api.mergePatch(`${gadgets}/a`, { spec: { n: 22 } })
    await page.button('Save').click()
    await page.button('Merge').click()
    await expect.poll(() => page.editor().innerText()).toContain('n: 22')
    expect(await page.editor().innerText()).toContain('n: 11')
    expect(await page.button('Save').isDisabled()).toBe(true)
    await page.button('Take yours').click()
    await expect.poll(() => page.button('Save').isDisabled()).toBe(false)
    await page.button('Save').click()
    await expect.poll(async () => (await api.get(`${gadgets}/a`)).body).toMatchObject({ spec: { n: 11 } })
    expect(page.errors.filter(error => !error.includes('409'))).toEqual([])
  })

  it('a status that a controller writes is no conflict', async () => {
    await create('a', { n: 1 })
    const page = await open(`${gadgets}/a#yaml`)
    await expect.poll(() => page.editor().innerText()).toContain('n: 1')
    await page.editor().fill((await page.editor().innerText()).replace('n: 1', 'n: 3'))
    await api.mergePatch(`${gadgets}/a/status`, { status: { phase: 'Ready' } })
    await page.button('Save').click()
    await expect
      .poll(async () => (await api.get(`${gadgets}/a`)).body)
      .toMatchObject({ spec: { n: 3 }, status: { phase: 'Ready' } })
    expect(await page.alerts()).toEqual([])
  })
})

it('a number that cannot be kept exactly is refused, not rounded', async () => {
  await create('a', { n: 1 })
  const page = await open(`${gadgets}/a#yaml`)
  await expect.poll(() => page.editor().innerText()).toContain('n: 1')
  await page.editor().fill((await page.editor().innerText()).replace('n: 1', 'n: 9007199254740993'))
  await page.button('Save').click()
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('9007199254740993')])
})
