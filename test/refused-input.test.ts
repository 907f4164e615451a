import { rm } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { pluginModule, pluginStates, writePlugin } from './support/plugins.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { eventually } from './support/worlds.ts'

/** Changes the schema of a plugin module. */
const withSchema = (module: string, schema: string) =>
  module.replace("text: { type: 'string' }", `text: ${schema}`)

describe('a plugin with unknown input', () => {
  let server: RunningServer
  let api: Api
  const dirs: string[] = []

  beforeAll(async () => {
    const shipped = (name: string, rest: string) =>
      `apiVersion: shipped.example.com/v1\nkind: Thing\nmetadata: {name: ${name}${rest}\n`
    dirs.push(
      await writePlugin({
        'index.js': withSchema(pluginModule('keyword'), "{ 'x-kubernetes-group-version-kind': [] }"),
      }),
      await writePlugin({
        'index.js': withSchema(pluginModule('misspelled'), "{ type: 'string', maxLenght: 5 }"),
      }),
      await writePlugin({
        'index.js': pluginModule('headers', {
          setup:
            "plugin.routes('api.headers.example.com/v1', r => r.get('/list', () => ({ headers: ['a'] })))",
        }),
      }),
      await writePlugin({ 'index.js': pluginModule('key').replace('  indexes:', '  indexs:') }),
      await writePlugin({
        'index.js': pluginModule('option', {
          setup: 'plugin.controller(Thing, c => c.owns(Thing, { labelSelectors: "a" }).reconcile(() => {}))',
        }),
      }),
      await writePlugin({
        'index.js': pluginModule('shipped'),
        'resources/extensions/things.yaml': [
          shipped('good', '}\nspec: {text: a}'),
          shipped('other', ', label: {a: b}}\nspec: {text: a, deep: {c: 1}}\nspecs: {}'),
        ].join('---\n'),
      }),
    )
    server = await startSharedServer({ plugins: dirs })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all(dirs.map(dir => rm(dir, { recursive: true, force: true })))
  })

  it.each([
    [
      'keyword',
      'schema.spec.properties.text.x-kubernetes-group-version-kind is not enforced by this server, which enforces x-kubernetes-',
    ],
    [
      'misspelled',
      'schema.spec.properties.text.maxLenght is not a keyword of OpenAPI 3.0 schemas that this server enforces, did you mean maxLength?',
    ],
    ['option', 'unknown key labelSelectors in owns of Thing, did you mean labelSelector?'],
  ])('%s is Failed, and names the place and the valid name', async (name, message) => {
    await eventually(async () => {
      const state = (await pluginStates(api)).get(name)
      expect([state?.phase, state?.message]).toEqual(['Failed', expect.stringContaining(message)])
    })
  })

  it('gets 500 for headers of a route that are no object, and the reason in the log', async () => {
    const response = await eventually(async () => {
      const given = await api.get('/apis/api.headers.example.com/v1/list')
      expect(given.status).not.toBe(503)
      return given
    })
    refusalOf(response, 500)
    await eventually(() => {
      expect(server.stderr()).toContain('the headers must be an object of names and values')
    })
  })

  it('is Failed if its module declares a model with an unknown key', async () => {
    await eventually(async () => {
      const messages = [...(await pluginStates(api)).values()].map(({ message }) => message)
      expect(messages).toContainEqual(
        expect.stringContaining('unknown key indexs in defineModel, did you mean indexes?'),
      )
    })
  })

  it('keeps the fields of shipped YAML that its schema does not know, and names them with file and line', async () => {
    const { object } = await eventually(async () => {
      const state = (await pluginStates(api)).get('shipped')
      expect(state?.problems).not.toBe('[]')
      return state ?? expect.fail()
    })
    expect(object.status).toMatchObject({
      phase: 'Started',
      problems: [
        {
          source: 'resources/extensions/things.yaml:5',
          message:
            'Thing other is applied, but its kind does not know the fields metadata.label, spec.deep.c, specs',
        },
      ],
    })
    const { body } = await api.get('/apis/shipped.example.com/v1/things/other')
    expect(body).toMatchObject({ spec: { text: 'a', deep: { c: 1 } } })
  })
})
