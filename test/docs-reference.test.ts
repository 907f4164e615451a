import { readFile } from 'node:fs/promises'
import {
  createClient,
  definePlugin,
  Event,
  multiValueIndex,
  singleValueIndex,
} from '@setpoint/controller-runtime'
import { defaultIndexNames } from '@setpoint/controller-runtime/api'
import { setupPlugin } from '@setpoint/controller-runtime/internal'
import { startTestServer } from '@setpoint/controller-runtime/testing'
import { expect, test } from 'vitest'
import { commands } from '../apiserver/src/cli/command-line.ts'
import { createCompiler } from '../apiserver/src/model/schema-compiler.ts'
import { Gadget } from './support/sdk/sample-models.ts'

/** The tables of the reference name exactly what the code has. */

const page = (name: string) => readFile(new URL(`../docs/reference/sdk/${name}.md`, import.meta.url), 'utf8')

/** Returns the rows of the first table after a heading. */
async function tableOf(name: string, heading: string): Promise<string[][]> {
  const [, section = ''] = (await page(name)).split(`\n${heading}\n`)
  const [, table = ''] = /\n\| --.*\n((?:\|.*\n)+)/.exec(section) ?? []
  return table
    .trimEnd()
    .split('\n')
    .map(row =>
      row
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map(cell => cell.trim()),
    )
}

/** Returns the names in code in the first column. */
const namesOf = (rows: readonly string[][]) =>
  rows.flatMap(([cell = '']) => [...cell.matchAll(/`([^`(]+)[^`]*`/g)].map(([, name = '']) => name))

test('the page of flags has a section for every command', async () => {
  const headings = (await page('../flags')).match(/^## .*/gm)?.join('\n')
  for (const command of Object.keys(commands)) expect(headings).toMatch(new RegExp(`[ \`]${command}\``))
})

test('the page of schemas has every format that is checked', async () => {
  const { formats } = createCompiler('first')
  // Those of definitions are Kubernetes' own.
  const own = Object.keys(formats).filter(name => !name.startsWith('kubernetes:'))
  expect(namesOf(await tableOf('../schemas', '## Formats')).sort()).toEqual(own.sort())
})

test('the page of models has every option of an index with its default', async () => {
  const told = new Map((await tableOf('model', '## Indexes')).map(([name = '', , value]) => [name, value]))
  const options = { name: 'required', indexFunc: () => [] }
  const { multiple, valuesOf, ...defaults } = multiValueIndex(options)()
  expect(multiple).toBe(true)
  expect(valuesOf).toBeTypeOf('function')
  const shown = Object.entries({ ...defaults, indexFunc: 'required' }).map(
    ([name, value]) => [`\`${name}\``, show(value)] as const,
  )
  expect(told).toEqual(new Map(shown))
  expect(singleValueIndex({ name: 'a', indexFunc: () => undefined })()).toMatchObject({ order: 'ASC' })
  for (const name of defaultIndexNames) expect(await page('model')).toContain(`\`${name}\``)
})

function show(value: unknown): string {
  if (value === undefined) return 'none'
  if (value === 'required') return value
  return typeof value === 'string' ? `\`'${value}'\`` : `\`${value}\``
}

test('the page of plugins has everything that setup gets', async () => {
  let given: string[] = []
  const plugin = definePlugin({
    name: 'curious',
    setup(context) {
      given = Object.keys(context)
    },
  })
  await using server = await startTestServer()
  const hosted = await setupPlugin(plugin, { transport: server.transport })
  await hosted.stop()
  const told = new Set(namesOf(await tableOf('plugin', '## The context of `setup`')))
  expect([...told].sort()).toEqual(given.sort())
})

test('a test server stores the events of a plugin', async () => {
  const plugin = definePlugin({
    name: 'gadgets',
    models: [Gadget],
    setup(context) {
      context.controller(Gadget, c =>
        c.reconcile(async gadget => context.events.record(gadget, { reason: 'Seen', message: 'once' })),
      )
    },
  })
  await using server = await startTestServer({ plugins: [plugin] })
  await server.startPlugin(plugin)
  const client = createClient(server.transport)
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  const stored = async () => (await client.list(Event)).items
  await expect
    .poll(stored)
    .toMatchObject([{ reason: 'Seen', message: 'once', involvedObject: { name: 'a' } }])
})
