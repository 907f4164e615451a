import { describe, expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget, gadget, PlainGadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import { Secret } from '../kinds/index.ts'
import { createClient } from './create-client.ts'
import { type Transport, TransportError, type TransportRequest } from './transport.ts'

/** A transport with scripted responses that records its requests. */
function scripted(...answers: { status?: number; headers?: Record<string, string>; body: unknown }[]) {
  const requests: TransportRequest[] = []
  const transport: Transport = {
    async request(request) {
      requests.push(request)
      const {
        status = 200,
        headers = {},
        body,
      } = answers[Math.min(requests.length, answers.length) - 1] ?? { body: null }
      return { status, headers, body: typeof body === 'string' ? body : JSON.stringify(body) }
    },
    watch: () => Promise.reject(new Error('not here')),
  }
  return { requests, client: createClient(transport, { plugin: 'demo', headers: { 'x-more': '1' } }) }
}

const base = '/apis/demo.example.com/v1/gadgets'
const stored = gadget('a', 5)

describe('requests', () => {
  test('carry the plugin name', async () => {
    const { requests, client } = scripted({ body: stored })
    await client.get(Gadget, 'a')
    await client.patch(Gadget, 'a', {})
    for (const { headers } of requests)
      expect(headers).toMatchObject({ 'x-setpoint-plugin': 'demo', 'x-more': '1' })
  })

  test('encode list parameters, and repeat those with several values', async () => {
    const { requests, client } = scripted({ body: { metadata: { version: '5' }, items: [] } })
    await client.list(Gadget, {
      labelSelector: 'k in (a,b)',
      fieldSelector: ['spec.colour=a&b', 'x!=y'],
      sort: ['spec.colour,desc', 'metadata.name'],
      page: 2,
      size: 20,
    })
    expect(requests[0]?.path).toBe(
      `${base}?labelSelector=k+in+%28a%2Cb%29&fieldSelector=spec.colour%3Da%26b&fieldSelector=x%21%3Dy&sort=spec.colour%2Cdesc&sort=metadata.name&page=2&size=20`,
    )
  })

  test('fill in kind and apiVersion for create and update', async () => {
    const { requests, client } = scripted({ body: stored })
    await client.create(
      Gadget,
      { metadata: { name: 'a' }, spec: { size: 1 } },
      { dryRun: true, fieldValidation: 'Strict' },
    )
    await client.update(Gadget, { metadata: { name: 'a', version: '4' }, spec: { size: 1 } })
    expect(requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `POST ${base}?dryRun=All&fieldValidation=Strict`,
      `PUT ${base}/a`,
    ])
    for (const { body } of requests) {
      expect(JSON.parse(body ?? '')).toMatchObject({ apiVersion: 'demo.example.com/v1', kind: 'Gadget' })
    }
  })

  test('send an array as JSON Patch and an object as merge patch; the uid of a target object is a precondition', async () => {
    const { requests, client } = scripted({ body: stored })
    await client.patch(Gadget, 'a', [{ op: 'test', path: '/spec/size', value: 5 }])
    await client.patch(Gadget, 'a', { spec: { colour: null } })
    await client.patch(
      Gadget,
      { ...stored, status: undefined },
      { metadata: { labels: { a: 'b' } } },
      { version: '5' },
    )
    expect(requests.map(({ headers, body }) => [headers?.['content-type'], JSON.parse(body ?? '')])).toEqual([
      ['application/json-patch+json', [{ op: 'test', path: '/spec/size', value: 5 }]],
      ['application/merge-patch+json', { spec: { colour: null } }],
      ['application/merge-patch+json', { metadata: { labels: { a: 'b' }, uid: 'uid-of-a', version: '5' } }],
    ])
  })

  test('write the status to its subresource if the model has one, else to the object', async () => {
    const plain = { ...stored, kind: 'PlainGadget' }
    const { requests, client } = scripted(
      { body: stored },
      { body: stored },
      { body: plain },
      { body: plain },
    )
    await client.patchStatus(Gadget, 'a', { phase: 'Ready' })
    await client.updateStatus(Gadget, { ...stored, status: { phase: 'Ready' } })
    await client.patchStatus(PlainGadget, 'a', { phase: 'Ready' })
    await client.updateStatus(PlainGadget, { ...plain, status: { phase: 'Ready' } })
    expect(requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `PATCH ${base}/a/status`,
      `PUT ${base}/a/status`,
      'PATCH /apis/demo.example.com/v1/plaingadgets/a',
      'PUT /apis/demo.example.com/v1/plaingadgets/a',
    ])
    expect(JSON.parse(requests[2]?.body ?? '')).toEqual({ status: { phase: 'Ready' } })
  })

  test('refuse a status that the server would ignore, because it is a subresource', async () => {
    const plain = { ...stored, kind: 'PlainGadget' }
    const { requests, client } = scripted({ body: plain }, { body: plain })
    const status = { phase: 'Ready' }
    const desired = { metadata: { name: 'a' }, status }
    await expect(client.patch(Gadget, 'a', { status })).rejects.toThrow('use patchStatus')
    await expect(client.apply(Gadget, desired)).rejects.toThrow('use applyStatus')
    await client.patch(PlainGadget, 'a', { status })
    await client.apply(PlainGadget, desired)
    expect(requests).toHaveLength(2)
  })

  test('send preconditions of a deletion', async () => {
    const { requests, client } = scripted({ body: stored })
    await client.delete(Gadget, 'a', {
      preconditions: { uid: 'u', version: '5' },
      propagationPolicy: 'Orphan',
    })
    await client.delete(Gadget, 'a')
    expect(JSON.parse(requests[0]?.body ?? '')).toMatchObject({
      preconditions: { uid: 'u', version: '5' },
      propagationPolicy: 'Orphan',
    })
    expect(requests[1]?.body).toBeUndefined()
  })

  test('give the items of a list the apiVersion and kind that the list of a built-in kind has once', async () => {
    const { apiVersion, kind, ...item } = stored
    const list = { apiVersion, kind: `${kind}List`, metadata: { version: '5' }, items: [item] }
    expect((await scripted({ body: list }).client.list(Gadget)).items).toEqual([stored])
    const other = scripted({ body: { ...list, kind: 'PartList' } })
    await expect(other.client.list(Gadget)).rejects.toThrow(TransportError)
  })

  test('reject a missing namespace, and say how to give it', async () => {
    const { requests, client } = scripted({ body: stored })
    await expect(client.get(Secret, 'key')).rejects.toThrow(
      new TypeError(
        'secrets are in namespaces: give the key <namespace>/<name> instead of "key", or use client.inNamespace(namespace)',
      ),
    )
    await expect(client.create(Secret, { metadata: { name: 'key' } })).rejects.toThrow(
      new TypeError(
        'secrets are in namespaces: set metadata.namespace, or use client.inNamespace(namespace)',
      ),
    )
    expect(requests).toEqual([])
  })

  test('reject an empty name, which would address the collection', async () => {
    const { requests, client } = scripted({ body: stored })
    await expect(client.delete(Gadget, '')).rejects.toThrow(TypeError)
    expect(requests).toEqual([])
  })
})

describe('responses', () => {
  test('a refusal becomes an ApiError with reason, details and the Retry-After delay', async () => {
    const error = new ApiError('Invalid', 'spec.size: too big', {
      causes: [{ reason: 'x', message: 'y', field: 'spec.size' }],
    })
    await expect(
      scripted({ status: 422, body: error.toStatus() }).client.get(Gadget, 'a'),
    ).rejects.toMatchObject({
      reason: 'Invalid',
      code: 422,
      details: { causes: [{ field: 'spec.size' }] },
    })
    await expect(
      scripted({ status: 429, headers: { 'retry-after': '3' }, body: '<html>' }).client.get(Gadget, 'a'),
    ).rejects.toMatchObject({ reason: 'TooManyRequests', details: { retryAfterSeconds: 3 } })
  })

  test.each([
    ['no JSON', '<html>'],
    ['another kind', { ...stored, kind: 'Tool' }],
    ['no version', { ...stored, metadata: { name: 'a', uid: 'u' } }],
  ])('a success that is %s is a TransportError', async (_what, body) => {
    await expect(scripted({ body }).client.get(Gadget, 'a')).rejects.toThrow(TransportError)
  })

  test('getIfExists returns undefined for a missing object and rejects for an unknown kind', async () => {
    const missing = new ApiError('NotFound', 'gadgets "a" not found', {
      name: 'a',
      kind: 'gadgets',
    }).toStatus()
    expect(await scripted({ status: 404, body: missing }).client.getIfExists(Gadget, 'a')).toBeUndefined()
    const unserved = new ApiError('NotFound', 'nothing is served here').toStatus()
    await expect(
      scripted({ status: 404, body: unserved }).client.getIfExists(Gadget, 'a'),
    ).rejects.toMatchObject({
      reason: 'NotFound',
    })
  })
})

describe('items', () => {
  const part = (names: string[], more: object) => ({
    body: { metadata: { version: '50', ...more }, items: names.map(name => gadget(name, 5)), ...more },
  })

  test('follows `continue` to the end', async () => {
    const { requests, client } = scripted(part(['a', 'b'], { continue: 'next' }), part(['c'], {}))
    const names: string[] = []
    for await (const item of client.items(Gadget, { pageSize: 2, labelSelector: 'x=y' }))
      names.push(item.metadata.name)
    expect(names).toEqual(['a', 'b', 'c'])
    expect(requests.map(({ path }) => path)).toEqual([
      `${base}?labelSelector=x%3Dy&limit=2`,
      `${base}?labelSelector=x%3Dy&limit=2&continue=next`,
    ])
  })

  test('an expired continue token ends the iteration with Expired, without skipping or repeating items', async () => {
    const gone = { status: 410, body: new ApiError('Expired', 'the continue token is too old').toStatus() }
    const { requests, client } = scripted(part(['a', 'b'], { continue: 'next' }), gone)
    const names: string[] = []
    const iterate = async () => {
      for await (const item of client.items(Gadget, { pageSize: 2 })) names.push(item.metadata.name)
    }
    await expect(iterate()).rejects.toMatchObject({ reason: 'Expired' })
    expect(names).toEqual(['a', 'b'])
    expect(requests).toHaveLength(2)
  })

  test('a sorted iteration reads all pages at the version of the first', async () => {
    const { requests, client } = scripted(part(['a'], { hasNext: true }), part(['b'], { hasNext: false }))
    const names: string[] = []
    for await (const item of client.items(Gadget, { pageSize: 1, sort: 'spec.colour' }))
      names.push(item.metadata.name)
    expect(names).toEqual(['a', 'b'])
    expect(requests[1]?.path).toBe(
      `${base}?sort=spec.colour&page=2&size=1&resourceVersion=50&resourceVersionMatch=Exact`,
    )
  })
})

describe('watch', () => {
  test('yields typed events; leaving the iteration closes the watch', async () => {
    const client = createClient(new MemoryServer())
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 3 } })
    const stream = await client.watch(Gadget)
    const types: string[] = []
    for await (const event of stream) {
      types.push(event.type)
      if (event.type === 'ADDED') expect(event.object.spec.size).toBe(3)
      if (event.type === 'BOOKMARK') break
    }
    expect(types).toEqual(['ADDED', 'BOOKMARK'])
  })
})
