import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, Collection, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { pluginStates } from './support/plugins.ts'
import { eventually, type SharedWorld, startSharedWorld } from './support/worlds.ts'

const code = 'x4711secret'
let world: SharedWorld
let safes: Collection

beforeAll(async () => {
  world = await startSharedWorld('embedded', ['safe-plugin'])
  safes = new Collection(world.api, 'safes.example.com/v1', 'Safe', 'safes')
})
afterAll(() => world?.end())

const create = (spec: unknown) => world.api.post(safes.path, safes.body('refused', spec))

function apply(manager: string, spec: unknown): Promise<Answer> {
  const path = `${safes.at('applied')}?fieldManager=${manager}`
  return world.api.request('PATCH', path, safes.body('applied', spec), {
    type: 'application/apply-patch+yaml',
  })
}

it.each([
  [
    'a text that is too long',
    { code: `${code}${'x'.repeat(40)}` },
    'spec.code',
    'must have at most 40 characters, has 51',
  ],
  [
    'a text that does not match',
    { code: `${code}!` },
    'spec.code',
    'must match the pattern ^[0-9a-z]*$, is a string',
  ],
  ['a number out of bounds', { length: 4711 }, 'spec.length', 'must be at most 1000, is a number'],
  ['a value of the wrong type', { length: code }, 'spec.length', 'must be an integer, is a string'],
  ['a value outside an enum', { kind: code }, 'spec.kind', 'must be one of "small", "large", is a string'],
  [
    'a duplicate in a set',
    { set: [code, code] },
    'spec.set[1]',
    'must not be in the list twice, is also at 0: a string',
  ],
  [
    'a duplicate key',
    { map: [{ key: code }, { key: code }] },
    'spec.map[1]',
    'must not have the same keys as another item, the item at 0 has key a string too',
  ],
  [
    'no alternative',
    { either: { code } },
    'spec.either',
    'must match exactly one of its alternatives; it must be an integer or a string, is an object',
  ],
  [
    'an alternative of another format',
    { either: code },
    'spec.either',
    'must match exactly one of its alternatives; the closest one fails because spec.either must be in the format "date-time", is a string',
  ],
  [
    'a rule with an expression as message',
    { timed: { code: '4711s', length: 5000 } },
    'spec.timed',
    'failed rule: self.length <= duration(self.code).getSeconds()',
  ],
  [
    'a rule that cannot be evaluated',
    { timed: { code, length: 1 } },
    'spec.timed',
    'failed rule: self.length <= duration(self.code).getSeconds() (the rule cannot be evaluated)',
  ],
])('%s of a sensitive kind is refused without the value', async (_case, spec, field, message) => {
  const answer = await create(spec)
  expect(refusalOf(answer, 422).causes[0]).toMatchObject({ field, message })
  expect(answer.text).not.toContain('4711')
})

it('an index function that throws does not show its error', async () => {
  const answer = await create({ json: code })
  const [cause] = refusalOf(answer, 422).causes
  expect(cause).toMatchObject({ field: 'spec.json' })
  expect(cause?.message).toContain('it threw an error')
  expect(answer.text).not.toContain('4711')
  const wrong = refusalOf(await create({ json: '{"id":4711}' }), 422)
  expect(wrong.message).toContain('must return a string or undefined, returned a value of type number')
})

it('a conversion that throws does not show its error, nor does the status of the plugin', async () => {
  await safes.create('locked', { locked: code })
  const beta = new Collection(world.api, 'safes.example.com/v1beta1', 'Safe', 'safes')
  const answer = await world.api.get(beta.at('locked'))
  refusalOf(answer, 500)
  const status = await eventually(async () => {
    const { problems } = (await pluginStates(world.api)).get('safes') ?? {}
    expect(problems).toContain('conversion')
    return problems
  })
  expect(answer.text + status).not.toContain('4711')
})

it('the 409 for a unique value of a sensitive kind names the index and not the value', async () => {
  await safes.create('holder', { code })
  const answer = await create({ code })
  const [cause] = refusalOf(answer, 409, 'AlreadyExists').causes
  expect(cause).toEqual({
    reason: 'FieldValueDuplicate',
    field: 'spec.code',
    message: 'the value of the unique index spec.code is held by "holder"',
  })
  expect(answer.text).not.toContain('4711')
})

it('the 409 for a conflict of managers of a sensitive kind names the list and not the item', async () => {
  const applied = { set: [code], map: [{ key: code, value: 'a' }] }
  expect((await apply('one', applied)).status).toBe(201)
  const answer = await apply('two', { ...applied, map: [{ key: code, value: 'b' }] })
  expect(refusalOf(answer, 409, 'Conflict').causes).toEqual([
    expect.objectContaining({ field: '.spec.map.value' }),
  ])
  expect(answer.text).not.toContain('4711')
})

describe('the response to a DELETE of a sensitive kind', () => {
  const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
  const statusOf = (details: object) => ({
    ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' },
    details,
  })

  it.each([
    ['a kind of a plugin', 'safes.example.com/v1', 'Safe', 'safes', { spec: { set: [code] } }],
    ['another version of it', 'safes.example.com/v1beta1', 'Safe', 'safes', { spec: {} }],
    ['Secrets', 'v1', 'Secret', 'secrets', { stringData: { code } }],
  ])('shows nothing of the object: %s', async (_case, apiVersion, kind, plural, content) => {
    const [group] = apiVersion.includes('/') ? apiVersion.split('/') : []
    const path =
      group === undefined ? `/api/v1/namespaces/default/${plural}` : `/apis/${apiVersion}/${plural}`
    const metadata = { annotations: { code }, finalizers: ['example.com/hold'] }
    const add = async (name: string) =>
      objectOf(
        await world.api.post(path, { apiVersion, kind, metadata: { ...metadata, name }, ...content }),
        201,
      )
    const { uid } = (await add('deleted')).metadata
    const details = { name: 'deleted', ...(group && { group }), kind: plural, uid }
    const at = `${path}/deleted`
    const answers = [
      await world.api.delete(`${at}?dryRun=All`),
      await world.api.request('DELETE', `${at}?dryRun=All`, undefined, { headers: { accept: table } }),
      await world.api.delete(at),
      await world.api.delete(at),
    ]
    for (const answer of answers) {
      expect(answer.status).toBe(200)
      expect(answer.body).toEqual(statusOf(details))
    }
    expect(objectOf(await world.api.get(at)).metadata.deletionTimestamp).toBeDefined()
    await world.api.mergePatch(at, { metadata: { finalizers: null } })
    expect((await world.api.get(at)).status).toBe(404)
    await add('other')
    const collection = await world.api.delete(path)
    expect([collection.status, collection.body]).toEqual([
      200,
      statusOf({ ...(group && { group }), kind: plural }),
    ])
    expect(objectOf(await world.api.get(`${path}/other`)).metadata.deletionTimestamp).toBeDefined()
    await world.api.mergePatch(`${path}/other`, { metadata: { finalizers: null } })
  })

  it('is what the OpenAPI document says', async () => {
    const document = await world.api.get('/openapi/v3/apis/safes.example.com/v1')
    const path = '/apis/safes.example.com/v1/safes'
    for (const at of [path, `${path}/{name}`]) {
      let response: unknown = document.body
      for (const key of ['paths', at, 'delete', 'responses', '200', 'content'])
        response = fieldsOf(response)[key]
      expect(JSON.stringify(response)).toMatch(/"#\/components\/schemas\/[\w.]+\.Status"/)
      expect(JSON.stringify(response)).not.toContain('Safe')
    }
  })
})
