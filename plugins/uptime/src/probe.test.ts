import type { NewObjectOf } from '@setpoint/controller-runtime'
import { startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import uptime from './index.ts'
import { Probe, type ProbeObject } from './probe.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ plugins: [uptime] })
})
afterAll(() => server.close())

function create(name: string, spec: NewObjectOf<ProbeObject>['spec']): Promise<ProbeObject> {
  return server.client.create(Probe, { metadata: { name }, spec })
}

test('probes are found by tag and state, and the summary counts them', async () => {
  const states = { up: 'Up', down: 'Down', new: undefined } as const
  for (const [name, state] of Object.entries(states)) {
    const probe = await create(name, { url: `http://127.0.0.1/${name}`, tags: ['counted', `${name},too`] })
    if (state !== undefined) await server.client.patchStatus(Probe, probe, { state })
  }
  const list = await server.client.list(Probe, { fieldSelector: ['spec.tags=counted', 'status.state=Down'] })
  expect(list.items.map(({ metadata }) => metadata.name)).toEqual(['down'])
  const route = `${await server.listen()}/apis/console.api.uptime.example.com/v1alpha1/summary`
  const summary = async (query: string): Promise<unknown> => (await fetch(`${route}${query}`)).json()
  const counts = { total: 3, states: { Up: 1, Down: 1, Unknown: 1 } }
  expect(await summary('')).toMatchObject(counts)
  expect(await summary('?tag=counted')).toMatchObject(counts)
  expect(await summary('?tag=up,too')).toMatchObject({ total: 1, states: { Up: 1, Down: 0, Unknown: 0 } })
})

test('an invalid probe is rejected with every field named', async () => {
  const spec = {
    url: 'ftp://127.0.0.1/',
    intervalSeconds: 4,
    timeoutSeconds: 61,
    expectStatus: 99,
    tags: [''],
  }
  const fields = [...Object.keys(spec).slice(0, -1), 'tags[0]'].map(field => `spec.${field}`)
  await expect(create('bad', spec)).rejects.toMatchObject({
    reason: 'Invalid',
    details: { causes: fields.map(field => expect.objectContaining({ field })) },
  })
  for (const url of ['http://', 'http:///path', 'http://user:secret@host/', 'http://a b/', 'javascript:1']) {
    await expect(create('bad', { url }), url).rejects.toMatchObject({ reason: 'Invalid' })
  }
})

test('the URL is unique', async () => {
  await create('first', { url: 'http://127.0.0.1/taken' })
  await expect(create('second', { url: 'http://127.0.0.1/taken' })).rejects.toMatchObject({
    reason: 'AlreadyExists',
    details: { causes: [{ reason: 'FieldValueDuplicate', field: 'spec.url' }] },
  })
})
