import type { Browser, Locator } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { ConsolePage, findingsOfAxe, openBrowser, shopPlugin } from './support/console-browser.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'

/** The form that the console makes from the schema of a kind. */

let browser: Browser
let server: RunningServer
let api: Api

const parcels = '/apis/shop.example.com/v1/parcels'

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
  await api.delete(parcels)
})

const create = (name: string, spec: object = {}) =>
  api.post(parcels, {
    apiVersion: 'shop.example.com/v1',
    kind: 'Parcel',
    metadata: { name },
    spec: { to: 'Here', weight: 1, ...spec },
  })
const open = (path = '') => ConsolePage.open(browser, server.url, path)

/** Opens the dialog that creates a parcel, with its form. */
async function openForm(): Promise<{ page: ConsolePage; dialog: Locator; form: Locator }> {
  const page = await open(parcels)
  await page.button('Create').click()
  const dialog = page.dialog('Create Parcel')
  await dialog.getByRole('button', { name: 'Form' }).click()
  const form = dialog.getByRole('group', { name: 'Form' })
  await form.waitFor()
  return { page, dialog, form }
}
const field = (form: Locator, name: string) => form.getByRole('textbox', { name, exact: true })
const group = (form: Locator, name: string | RegExp) => form.getByRole('group', { name })
/** Chromium reports the 422. */
const otherErrors = ({ errors }: ConsolePage) => errors.filter(error => !error.includes('422'))

it('an object of every shape of field is created by a form, with the keyboard alone after it is open', async () => {
  const { page, form } = await openForm()
  const { keyboard } = page.page
  const press = async (name: string) => {
    await form.getByRole('button', { name, exact: true }).focus()
    await keyboard.press('Enter')
  }
  await field(form, 'name').first().focus()
  await keyboard.type('first')
  await press('Add to labels')
  await keyboard.press('Shift+Tab')
  await form.getByRole('textbox', { name: 'Key 1 of labels' }).focus()
  await keyboard.type('1')
  await keyboard.press('Tab')
  await keyboard.type('one')
  await field(form, 'to').focus()
  await keyboard.type('There')
  await field(form, 'weight').fill('1.05')
  await form.getByRole('combobox', { name: 'speed' }).selectOption('fast')
  await form.getByRole('combobox', { name: 'insured' }).selectOption('false')
  await form.getByRole('checkbox', { name: 'gift', exact: true }).focus()
  await keyboard.press('Space')
  await form.getByRole('checkbox', { name: 'note is null' }).check()
  await press('Add to items')
  // The focus is in what was added.
  await keyboard.type('book')
  await field(form, 'count').fill('2')
  await press('Add to tags')
  await keyboard.type('red')
  await press('Add to prices')
  await keyboard.type('total')
  await keyboard.press('Tab')
  await keyboard.press('Control+a')
  await keyboard.type('12')
  await press('Add sender')
  await field(group(form, /^sender/), 'name').fill('Me')
  await keyboard.press('Control+Enter')
  await expect.poll(() => page.path).toBe(`${parcels}/first`)
  expect((await api.get(`${parcels}/first`)).body).toMatchObject({
    metadata: { labels: { 1: 'one' } },
    spec: {
      to: 'There',
      weight: 1.05,
      speed: 'fast',
      insured: false,
      gift: true,
      note: null,
      items: [{ name: 'book', count: 2 }],
      tags: ['red'],
      prices: { total: 12 },
      sender: { name: 'Me' },
    },
  })
  expect(page.errors).toEqual([])
})

it('a form begins with what the schema presets, and says what each field is', async () => {
  const { page, form } = await openForm()
  expect(await form.getByRole('combobox', { name: 'speed' }).locator('option:checked').innerText()).toBe(
    'slow',
  )
  expect(await field(form, 'to').getAttribute('aria-required')).toBe('true')
  expect(await describedBy(page, field(form, 'to'))).toBe('The address.')
  expect(await describedBy(page, field(form, 'weight'))).toBe('In kilograms. From 0.5 to 30.')
  // Without a value and a default, neither true nor false is claimed.
  expect(await form.getByRole('combobox', { name: 'insured' }).locator('option:checked').innerText()).toBe(
    'not set',
  )
  await expect.poll(() => group(form, 'extra').innerText()).toContain('Edited in YAML')
})

it('a refusal stands at the fields that it names, and the first of them has the focus', async () => {
  const { page, dialog, form } = await openForm()
  await field(form, 'name').first().fill('first')
  await field(form, 'weight').fill('99')
  await form.getByRole('button', { name: 'Add to items' }).click()
  await dialog.getByRole('button', { name: 'Create', exact: true }).click()
  await expect.poll(() => dialog.getByRole('alert').innerText()).toContain('spec.to')
  expect(await field(form, 'to').getAttribute('aria-invalid')).toBe('true')
  expect(await describedBy(page, field(form, 'to'))).toContain('must have at least 1 character')
  expect(await describedBy(page, field(form, 'weight'))).toContain('30')
  expect(await describedBy(page, field(group(form, /^items 1/), 'name'))).toContain('at least 1 character')
  expect(await page.page.evaluate('document.activeElement.getAttribute("aria-describedby")')).toBe(
    await field(form, 'to').getAttribute('aria-describedby'),
  )
  // A problem goes once its field has changed.
  await field(form, 'weight').fill('9')
  expect(await field(form, 'weight').getAttribute('aria-invalid')).toBe('false')
  expect(await field(form, 'to').getAttribute('aria-invalid')).toBe('true')
  expect(otherErrors(page)).toEqual([])
})

it('what was typed in the form is in the YAML, and the other way round', async () => {
  const { page, dialog, form } = await openForm()
  await field(form, 'to').fill('There')
  await field(form, 'weight').fill('heavy')
  expect(await describedBy(page, field(form, 'weight'))).toContain('Must be a number.')
  await dialog.getByRole('button', { name: 'YAML', exact: true }).click()
  const text = dialog.getByRole('textbox', { name: 'YAML' })
  await expect.poll(() => text.innerText()).toContain('to: There')
  expect(await text.innerText()).toContain('weight: heavy')
  const typed =
    'apiVersion: shop.example.com/v1\nkind: Parcel\n# a comment\nmetadata:\n  name: a\nspec:\n  to: Nowhere\n  weight: 2\n'
  await text.fill(typed)
  await expect.poll(() => dialog.innerText()).toContain('Comments are not kept')
  await dialog.getByRole('button', { name: 'Form' }).click()
  await expect.poll(() => field(form, 'to').inputValue()).toBe('Nowhere')
  // Nothing was changed in the form, so the text is as it was.
  await dialog.getByRole('button', { name: 'YAML', exact: true }).click()
  await expect.poll(() => text.innerText()).toContain('# a comment')
  await text.fill('spec: {')
  await dialog.getByRole('button', { name: 'Form' }).click()
  await expect.poll(() => dialog.getByRole('alert').innerText()).toContain('A form cannot show this text')
  await expect.poll(() => text.innerText()).toBe('spec: {')
  expect(page.errors).toEqual([])
})

it('an object is edited by a form, whose address can be kept, and nothing else of it changes', async () => {
  await create('a', {
    extra: { deep: [1, { a: null }] },
    prices: { 10: 1, b: 2 },
    items: [{ name: 'book' }, { name: 'pen', count: 3 }],
  })
  const page = await open(`${parcels}/a`)
  await page.button('Edit').click()
  await expect.poll(() => page.path).toBe(`${parcels}/a#form`)
  await page.page.reload()
  const form = page.page.getByRole('group', { name: 'Form' })
  await field(form, 'to').fill('There')
  await form.getByRole('button', { name: 'Remove items 1', exact: true }).click()
  await page.button('Check').click()
  await expect.poll(() => page.status('Notices')).toContain('valid')
  await page.button('Save').click()
  await expect.poll(() => page.status('Notices')).toContain('Saved')
  expect((await api.get(`${parcels}/a`)).body).toMatchObject({
    spec: {
      to: 'There',
      weight: 1,
      extra: { deep: [1, { a: null }] },
      prices: { 10: 1, b: 2 },
      items: [{ name: 'pen', count: 3 }],
    },
  })
  // Others' changes are seen in an untouched form.
  await api.mergePatch(`${parcels}/a`, { spec: { to: 'Elsewhere' } })
  await expect.poll(() => field(form, 'to').inputValue()).toBe('Elsewhere')
  expect(page.errors).toEqual([])
})

it('lists whose elements have keys, and sets, are merged by element', async () => {
  await create('a', {
    items: [
      { name: 'book', count: 1 },
      { name: 'pen', count: 1 },
    ],
    tags: ['red'],
  })
  const page = await open(`${parcels}/a#form`)
  const form = page.page.getByRole('group', { name: 'Form' })
  await field(group(form, /^items 1/), 'count').fill('5')
  await form.getByRole('button', { name: 'Add to tags' }).click()
  await page.page.keyboard.type('mine')
  await api.mergePatch(`${parcels}/a`, {
    spec: {
      items: [
        { name: 'ink', count: 1 },
        { name: 'book', count: 1 },
        { name: 'pen', count: 7 },
      ],
      tags: ['theirs', 'red'],
    },
  })
  await page.button('Save').click()
  await expect.poll(() => page.alerts()).toEqual([expect.stringMatching(/modified|version/)])
  await page.button('Merge').click()
  await expect.poll(() => page.status('Notices')).toBe('Merged. Nothing has been saved yet.')
  await page.button('Save').click()
  await expect
    .poll(async () => (await api.get(`${parcels}/a`)).body)
    .toMatchObject({
      spec: {
        items: [
          { name: 'book', count: 5 },
          { name: 'pen', count: 7 },
          { name: 'ink', count: 1 },
        ],
        tags: ['red', 'mine', 'theirs'],
      },
    })
})

it('a conflict within an element of a list is decided in the text', async () => {
  await create('a', {
    items: [
      { count: 1, name: 'book' },
      { name: 'pen', count: 1 },
    ],
  })
  const page = await open(`${parcels}/a#form`)
  const form = page.page.getByRole('group', { name: 'Form' })
  await field(group(form, /^items 1/), 'count').fill('5')
  await form.getByRole('button', { name: 'Remove items 2', exact: true }).click()
  await api.mergePatch(`${parcels}/a`, {
    spec: {
      items: [
        { count: 6, name: 'book' },
        { name: 'pen', count: 9 },
      ],
    },
  })
  await page.button('Save').click()
  await page.button('Merge').click()
  await expect.poll(() => page.editor().innerText()).toContain('count: 6')
  expect(await page.button('Save').isDisabled()).toBe(true)
  await page.button('Take yours').first().click()
  await page.button('Take theirs').click()
  await page.button('Save').click()
  await expect
    .poll(async () => (await api.get(`${parcels}/a`)).body)
    .toMatchObject({
      spec: {
        items: [
          { name: 'book', count: 5 },
          { name: 'pen', count: 9 },
        ],
      },
    })
})

it('markup is text in a form, and what is too long for one is edited in YAML', async () => {
  const markup = '<img src=x onerror="document.title=\'owned\'">שלום'
  const prices = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`p${at}`, at]))
  await create('a', {
    to: markup,
    note: 'x'.repeat(1_000_000),
    prices,
    tags: [markup],
    extra: { [markup]: 1 },
  })
  const page = await open(`${parcels}/a#form`)
  const form = page.page.getByRole('group', { name: 'Form' })
  await expect.poll(() => field(form, 'to').inputValue()).toBe(markup)
  await expect.poll(() => group(form, 'extra').innerText()).toContain(markup)
  for (const name of ['note', 'prices'])
    expect(await group(form, name).innerText()).toContain('Edited in YAML: too long for a form')
  await field(form, 'weight').fill('2')
  await page.button('Save').click()
  await expect.poll(() => page.status('Notices')).toContain('Saved')
  expect((await api.get(`${parcels}/a`)).body).toMatchObject({ spec: { to: markup, weight: 2, prices } })
  await form.getByRole('button', { name: 'Edit prices in YAML' }).click()
  await expect.poll(() => page.editor().innerText()).toContain('to: <img')
  await page.go('/apis/shop.example.com/v1/bags')
  await page.button('Create').click()
  const dialog = page.dialog('Create Bag')
  await dialog.getByRole('button', { name: 'Form' }).click()
  await expect.poll(() => group(dialog, 'spec').innerText()).toContain('Edited in YAML: of any shape')
  expect(await page.page.title()).not.toBe('owned')
  expect(page.errors).toEqual([])
})

it.each(['light', 'dark'] as const)('in %s, a form has nothing that axe-core finds', async colorScheme => {
  await create('a', { items: [{ name: 'book' }], prices: { a: 1 }, tags: ['x'], extra: { a: 1 } })
  const page = await ConsolePage.open(browser, server.url, `${parcels}/a#form`, { colorScheme })
  const form = page.page.getByRole('group', { name: 'Form' })
  await field(form, 'weight').fill('99')
  await page.button('Save').click()
  await expect.poll(() => field(form, 'weight').getAttribute('aria-invalid')).toBe('true')
  expect(await findingsOfAxe(page)).toEqual([])
})

it('a form fits on a phone without scrolling sideways', async () => {
  await create('a', { items: [{ name: 'book' }], prices: { a: 1 }, tags: ['x'] })
  const viewport = { width: 390, height: 844 }
  const page = await ConsolePage.open(browser, server.url, `${parcels}/a#form`, { viewport })
  await page.page.getByRole('group', { name: 'Form' }).waitFor()
  expect(await page.page.evaluate('document.documentElement.scrollWidth')).toBe(390)
})

/** Returns what a screen reader says about a field besides its name. */
async function describedBy({ page }: ConsolePage, of: Locator): Promise<string> {
  const ids = ((await of.getAttribute('aria-describedby')) ?? '').split(' ').filter(Boolean)
  return (await Promise.all(ids.map(id => page.locator(`[id="${id}"]`).innerText()))).join(' ')
}
