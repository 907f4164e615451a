import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { ConsolePage, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
import { anyFields, define, definitionOf, objectsOf, pathOf } from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'

/** The console with kinds that no plugin brings: of definitions, and Kubernetes' own. */

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

const open = (path = '') => ConsolePage.open(browser, server.url, path)

/** Defines a kind with objects in namespaces, and waits until it is served. */
async function installed(plural: string) {
  const definition = definitionOf({
    plural,
    group: 'garden.example.com',
    scope: 'Namespaced',
    versions: {
      v1: {
        spec: {
          ...anyFields,
          properties: { color: { type: 'string' }, height: { type: 'integer' }, soil: { type: 'string' } },
        },
        columns: [
          { name: 'Color', type: 'string', jsonPath: '.spec.color' },
          { name: 'Height', type: 'integer', jsonPath: '.spec.height' },
          { name: 'Soil', type: 'string', jsonPath: '.spec.soil' },
        ],
        selectable: ['.spec.color'],
      },
    },
    indexes: [{ path: '.spec.height', order: 'DESC' }],
  })
  await define(api, definition)
  const objects = objectsOf(api, definition, { namespace: 'default' })
  await expect.poll(async () => (await api.get(objects.path)).status).toBe(200)
  return { definition, objects }
}

describe('a kind of a definition', () => {
  it('has its columns, sorts by its indexes, and filters by its selectable fields', async () => {
    const { objects } = await installed('roses')
    const rose = (name: string, spec: Fields) => ({
      apiVersion: 'garden.example.com/v1',
      kind: 'Rose',
      metadata: { name },
      spec,
    })
    for (const [height, color] of [
      [3, 'red'],
      [2, 'white'],
    ])
      await api.post(objects.path, rose(`r${height}`, { height, color }))
    const page = await open(objects.path)
    await expect.poll(() => page.columns()).toEqual(['Name', 'Color', 'Height', 'Soil'])
    expect(await page.page.getByRole('columnheader').getByRole('button').allInnerTexts()).toEqual([
      'Name',
      'Color',
      'Height',
    ])
    await page.button('Height').click()
    await expect.poll(() => page.path).toBe(`${objects.path}?sort=spec.height,desc`)
    await expect.poll(() => page.names()).toEqual(['r3', 'r2'])
    await page.filter('spec.color=white')
    await expect.poll(() => page.names()).toEqual(['r2'])
    await page.page.getByRole('link', { name: 'r2', exact: true }).click()
    await page.tab('YAML').click()
    await expect.poll(() => page.editor().innerText()).toContain('white')
    await page.editor().fill((await page.editor().innerText()).replace('white', 'pink'))
    await page.button('Save').click()
    await expect
      .poll(async () => (await api.get(`${objects.path}/r2`)).body)
      .toMatchObject({ spec: { color: 'pink' } })
    expect(page.errors).toEqual([])
  })

  it('leaves the page of an object readable when the definition goes', async () => {
    const { definition, objects } = await installed('tulips')
    await api.post(objects.path, {
      apiVersion: 'garden.example.com/v1',
      kind: 'Tulip',
      metadata: { name: 't' },
      spec: { color: 'yellow' },
    })
    const page = await open(`${objects.path}/t`)
    await expect.poll(() => page.page.getByRole('tabpanel').innerText()).toContain('yellow')
    await api.delete(pathOf(definition))
    await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('has been deleted')])
    // The console has noticed that the kind is not there.
    await expect.poll(() => page.kinds()).not.toContain('tulips')
    expect(await page.alerts()).toEqual([expect.stringContaining('has been deleted')])
    await page.tab('YAML').click()
    await expect.poll(() => page.editor().innerText()).toContain('yellow')
    expect(page.errors).toEqual([])
  })

  it('comes to an open page, which keeps what has been typed there', async () => {
    const page = await open(gadgets)
    await page.button('Create').click()
    const text = page.dialog('Create Gadget').getByRole('textbox', { name: 'YAML' })
    await expect.poll(() => text.innerText()).toContain('email:')
    await text.fill('kind: Gadget\nmetadata: {name: typed}\n')
    // An editor that is made anew is another element.
    const editor = await text.elementHandle()
    await installed('lilies')
    await expect.poll(() => page.kinds()).toContain('lilies')
    expect(await text.innerText()).toContain('typed')
    expect(await editor?.isVisible()).toBe(true)
    expect(page.errors).toEqual([])
  })
})
