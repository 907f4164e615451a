import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { ConsolePage, gadget, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
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
    // Chromium reports the responses of a kind that was read while it went.
    expect(page.errors.filter(error => !/\b(404|503)\b/.test(error))).toEqual([])
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

describe('a deletion', () => {
  it('names the dependents of dependents, and no object that another owner keeps', async () => {
    const uids = new Map<string, string>()
    const create = async (name: string, ...owners: readonly string[]) => {
      const ownerReferences = owners.map(owner => ({
        ...{ apiVersion: 'shop.example.com/v1', kind: 'Gadget', name: owner },
        uid: uids.get(owner),
      }))
      uids.set(name, await createdUid(gadgets, { ...gadget(name), metadata: { name, ownerReferences } }))
    }
    await create('first')
    await create('second')
    await create('child', 'first')
    await create('grandchild', 'child')
    await create('kept', 'first', 'second')
    await create('shared', 'first', 'child')
    expect(await deletionOf(`${gadgets}/first`)).toEqual([
      'Gadget child',
      'Gadget grandchild',
      'Gadget shared',
    ])
  })

  it('of a namespace names what is in it, and that it waits', async () => {
    await createdUid('/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'meadow' },
    })
    const inside = { name: 'inside', finalizers: ['example.com/wait'] }
    const configMaps = '/api/v1/namespaces/meadow/configmaps'
    await createdUid(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: inside })
    expect(await deletionOf('/api/v1/namespaces/meadow')).toContain('ConfigMap inside')
    const page = await open('/api/v1/namespaces/meadow')
    await page.button('Delete').click()
    await page
      .dialog(/^Delete/)
      .getByRole('button', { name: 'Delete' })
      .click()
    await expect
      .poll(() => page.page.getByRole('status').allInnerTexts())
      .toContainEqual('Being deleted. It waits for everything in it to go.')
    await api.mergePatch(`${configMaps}/inside`, { metadata: { finalizers: null } })
    await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('has been deleted')])
  })

  it('of a definition names the objects of its kind', async () => {
    const { definition, objects } = await installed('poppies')
    await createdUid(objects.path, {
      apiVersion: 'garden.example.com/v1',
      kind: 'Poppie',
      metadata: { name: 'p' },
    })
    expect(await deletionOf(pathOf(definition))).toEqual(['Poppie p in default'])
  })

  async function createdUid(path: string, body: object): Promise<string> {
    return objectOf(await api.post(path, body), 201).metadata.uid
  }

  /** Returns what the dialog says goes with the object. */
  async function deletionOf(path: string): Promise<string[]> {
    const page = await open(path)
    await page.button('Delete').click()
    const items = page.dialog(/^Delete/).getByRole('listitem')
    await items.first().waitFor()
    const named = await items.allInnerTexts()
    await page.close()
    return named.sort()
  }
})

describe("Kubernetes' own kinds", () => {
  const kinds = [
    ['/api/v1/namespaces/default/configmaps', 'v1', 'ConfigMap', { data: { is: 'old' } }],
    ['/api/v1/namespaces/default/secrets', 'v1', 'Secret', { type: 'old' }],
    [
      '/apis/coordination.k8s.io/v1/namespaces/default/leases',
      'coordination.k8s.io/v1',
      'Lease',
      { spec: { holderIdentity: 'old' } },
    ],
  ] as const

  it.each(kinds)('%s are shown, merged, saved and deleted', async (path, apiVersion, kind, content) => {
    const body = { apiVersion, kind, metadata: { name: 'mine', labels: { is: 'old' } }, ...content }
    expect((await api.post(path, body)).status).toBe(201)
    const page = await open(path)
    await page.page.getByRole('link', { name: 'mine', exact: true }).click()
    await page.tab('YAML').click()
    await expect.poll(() => page.editor().innerText()).toContain('mine')
    const text = await page.editor().innerText()
    await page.editor().fill(text.replace('is: old', 'is: new'))
    await api.mergePatch(`${path}/mine`, { metadata: { annotations: { 'example.com/by': 'another' } } })
    await page.button('Save').click()
    await page.button('Merge').click()
    await expect.poll(() => page.editor().innerText()).toContain('another')
    await page.button('Save').click()
    await expect.poll(() => page.status('Notices')).toContain('Saved')
    expect(JSON.stringify((await api.get(`${path}/mine`)).body)).toMatch(/"is":"new"/)
    await page.button('Delete').click()
    await page
      .dialog(/^Delete/)
      .getByRole('button', { name: 'Delete' })
      .click()
    await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('has been deleted')])
    // Chromium reports the 409.
    expect(page.errors.filter(error => !error.includes('409'))).toEqual([])
  })

  it('events have a column for their names, and lead to their pages', async () => {
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'a.1' },
      involvedObject: { kind: 'Gadget', name: 'a', namespace: 'default' },
      reason: 'Because',
      lastTimestamp: new Date().toISOString().replace(/\.\d+/, ''),
    }
    expect((await api.post('/api/v1/namespaces/default/events', event)).status).toBe(201)
    const page = await open('/api/v1/namespaces/default/events')
    await expect
      .poll(() => page.columns())
      .toEqual(['Name', 'Last Seen', 'Type', 'Reason', 'Object', 'Message'])
    expect(await page.row('a.1').innerText()).toMatch(/^a\.1\s+\d+s/)
  })
})
