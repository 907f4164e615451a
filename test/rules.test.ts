import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type Answer, Api, refusalOf } from './support/api.ts'
import { pluginStates, writePlugin } from './support/plugins.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'

/** A plugin with a kind that has every sort of rule. */
const source = (rule: string, name = 'rules') => `
import { defineModel, definePlugin } from '@setpoint/controller-runtime'

const Range = defineModel({
  group: '${name}.example.com', version: 'v1', kind: 'Range', singular: 'range', plural: 'ranges',
  schema: {
    spec: {
      type: 'object',
      required: ['min'],
      properties: {
        min: { type: 'integer' },
        max: { type: 'integer' },
        tags: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: ${JSON.stringify(rule)}, message: 'max is too small', fieldPath: '.max' }],
    },
    status: { type: 'object', properties: { phase: { type: 'string' } } },
  },
  subresources: { status: true },
  default(draft) {
    draft.spec.max ??= 10
  },
  validate(object, { user, subresource }) {
    if (object.spec.min === 13) throw new Error('the secret of the hook')
    if (subresource === 'status' && object.status?.phase === 'Never')
      return [{ field: 'status.phase', message: 'must not be set by ' + user.name, reason: 'FieldValueForbidden' }]
    return object.spec.min % 2 === 0 ? [] : [{ field: 'spec.min', message: 'must be even' }]
  },
})

export default definePlugin({ name: '${name}', models: [Range] })
`

/** Writes the plugin of the reference. */
async function examplePlugin(): Promise<string> {
  const page = await readFile(new URL('../docs/reference/rules.md', import.meta.url), 'utf8')
  const [, example = ''] = /^```js index\.js\n([\s\S]*?)^```$/m.exec(page) ?? []
  return writePlugin({ 'index.js': example })
}

let server: RunningServer
let api: Api
const path = '/apis/rules.example.com/v1/ranges'
const body = (spec: object, metadata: object = {}) => ({
  apiVersion: 'rules.example.com/v1',
  kind: 'Range',
  metadata: { name: 'a', ...metadata },
  spec,
})

beforeAll(async () => {
  const plugins = await Promise.all([
    writePlugin({ 'index.js': source('self.min <= self.max') }),
    writePlugin({ 'index.js': source('self.min <= self.maximum', 'broken') }),
    examplePlugin(),
  ])
  server = await startSharedServer({ plugins })
  api = new Api(server.url)
})
afterAll(() => server?.stop())
beforeEach(async () => {
  await api.delete(`${path}/a`)
})

it('a refused write reports the violations of the schema, the rules and the hook together', async () => {
  const refusal = refusalOf(await api.post(path, body({ min: 21, tags: ['a', 'a'] })), 422, 'Invalid')
  expect(refusal.causes).toEqual([
    {
      reason: 'FieldValueDuplicate',
      field: 'spec.tags[1]',
      message: 'must not be in the list twice, is also at 0: "a"',
    },
    { reason: 'FieldValueInvalid', field: 'spec.max', message: 'max is too small' },
    { reason: 'FieldValueInvalid', field: 'spec.min', message: 'must be even' },
  ])
  expect((await api.get(`${path}/a`)).status).toBe(404)
})

it('a dry run, a patch and a status write go through the rules and the hooks', async () => {
  expect((await api.post(`${path}?dryRun=All`, body({ min: 2 }))).body).toMatchObject({
    spec: { min: 2, max: 10 },
  })
  refusalOf(await api.post(`${path}?dryRun=All`, body({ min: 3 })), 422)
  expect((await api.post(path, body({ min: 2 }))).status).toBe(201)
  refusalOf(await api.mergePatch(`${path}/a`, { spec: { max: 1 } }), 422)
  const refusal = refusalOf(await api.mergePatch(`${path}/a/status`, { status: { phase: 'Never' } }), 422)
  expect(refusal.causes).toEqual([
    { reason: 'FieldValueForbidden', field: 'status.phase', message: 'must not be set by setpoint:local' },
  ])
})

it('a hook that throws is a 500 that names the plugin; only the log has the error', async () => {
  const answer = await api.post(path, body({ min: 13, max: 20 }))
  expect(refusalOf(answer, 500, 'InternalError').message).toContain(
    'the validate hook of plugin "rules" failed',
  )
  expect(answer.text).not.toContain('secret')
  expect((await api.get(`${path}/a`)).status).toBe(404)
  await expect.poll(() => server.stderr()).toContain('the secret of the hook')
})

it('a rule that does not compile stops its plugin, with its place', async () => {
  const broken = (await pluginStates(api)).get('broken')
  expect(broken?.phase).toBe('Failed')
  expect(broken?.message).toContain(
    'the kind Range: schema.spec.x-kubernetes-validations[0].rule does not compile: undefined field "maximum" (line 1, column 18), in "self.min <= self.maximum"',
  )
})

it('the plugin of the reference does what the page says', async () => {
  const pools = '/apis/pools.example.com/v1/pools'
  const pool = (name: string, spec: object) => ({
    apiVersion: 'pools.example.com/v1',
    kind: 'Pool',
    metadata: { name },
    spec,
  })
  const causes = async (answer: Promise<Answer>) =>
    refusalOf(await answer, 422).causes.map(({ field, message }) => `${field}: ${message}`)
  expect((await api.post(pools, pool('a', { min: 1, zone: 'x' }))).body).toMatchObject({
    spec: { min: 1, max: 11, zone: 'x' },
  })
  expect(await causes(api.post(pools, pool('b', { min: 3, max: 2, zone: 'x' })))).toEqual([
    'spec.max: max is 2, less than min',
  ])
  expect(await causes(api.mergePatch(`${pools}/a`, { spec: { zone: 'y' } }))).toEqual([
    'spec.zone: is immutable',
  ])
  expect((await api.mergePatch(`${pools}/a`, { spec: { max: 20 } })).status).toBe(200)
})
