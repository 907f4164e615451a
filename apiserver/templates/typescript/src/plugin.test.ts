import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until, waitFor } from '@setpoint/controller-runtime'
import { startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Page, type PageObject } from './page.ts'
import { pages } from './plugin.ts'

let folder: string
let server: TestServer

/** A real server in this process, with a temporary store. */
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plugin-name-'))
  const plugin = pages(folder)
  server = await startTestServer({ plugins: [plugin] })
  await server.startPlugin(plugin)
})

afterEach(async () => {
  await server.close()
  await rm(folder, { recursive: true })
})

/** The status has the generation that was written last, so a test waits for that rather than for a time. */
const isWritten = (page: PageObject | undefined) =>
  page !== undefined && page.status?.observedGeneration === page.metadata.generation

test('a page becomes a file, and the file is removed with the page', async () => {
  const { client } = server
  await client.create(Page, { metadata: { name: 'news' }, spec: { title: 'News & more' } })
  await waitFor(client, Page, 'news', isWritten)
  expect(await readFile(join(folder, 'news.html'), 'utf8')).toContain('<h1>News &#38; more</h1>')

  await client.delete(Page, 'news')
  await waitFor(client, Page, 'news', until.deleted())
  expect(await readdir(folder)).toEqual([])
})

test('a changed page is written again', async () => {
  const { client } = server
  await client.create(Page, { metadata: { name: 'news' }, spec: { title: 'News' } })
  await waitFor(client, Page, 'news', isWritten)
  await client.patch(Page, 'news', { spec: { text: 'Changed.' } })
  await waitFor(client, Page, 'news', isWritten)
  expect(await readFile(join(folder, 'news.html'), 'utf8')).toContain('<p>Changed.</p>')
})

test('two pages cannot have the same title', async () => {
  const { client } = server
  await client.create(Page, { metadata: { name: 'a' }, spec: { title: 'News' } })
  const twin = client.create(Page, { metadata: { name: 'b' }, spec: { title: 'News' } })
  await expect(twin).rejects.toMatchObject({ reason: 'AlreadyExists' })
})
