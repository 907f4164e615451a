import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import { createClient } from './create-client.ts'
import { observeClient } from './observed-client.ts'
import { TransportError, type TransportRequest } from './transport.ts'

function setUp() {
  const server = new MemoryServer()
  const told: string[] = []
  const observer = {
    wrote: (
      _model: object,
      { metadata }: { metadata: { name: string; version: string } },
      removed: boolean,
    ) => void told.push(`${removed ? 'removed' : 'wrote'} ${metadata.name}@${metadata.version}`),
    uncertain: (_model: object, name: string) => void told.push(`uncertain ${name}`),
  }
  const abort = new AbortController()
  const client = observeClient(createClient(server), observer, abort.signal, 'mine')
  return { server, told, abort, observer, client }
}

test('reports every write with the stored object, but no reads or dry runs', async () => {
  const { told, client } = setUp()
  const a = await client.create(Gadget, {
    metadata: { name: 'a', finalizers: ['x.example.com/x'] },
    spec: { size: 1 },
  })
  await client.update(Gadget, { ...a, spec: { size: 2 } })
  await client.patch(Gadget, 'a', { spec: { size: 3 } })
  await client.patchStatus(Gadget, 'a', { phase: 'Ready' })
  const current = await client.get(Gadget, 'a')
  await client.list(Gadget)
  await client.getIfExists(Gadget, 'b')
  await client.updateStatus(Gadget, { ...current, status: { phase: 'Gone' } })
  await client.patch(Gadget, 'a', {}, { dryRun: true })
  await client.delete(Gadget, 'a')
  await client.patch(Gadget, 'a', [{ op: 'remove', path: '/metadata/finalizers/0' }])
  expect(told).toEqual([
    'wrote a@101',
    'wrote a@102',
    'wrote a@103',
    'wrote a@104',
    'wrote a@105',
    'wrote a@106',
    'removed a@107',
  ])
})

test('applies under its own name unless the options have another, and reports that write', async () => {
  const { told, server, client } = setUp()
  const { metadata } = await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  told.length = 0
  const paths: string[] = []
  server.answer = ({ method, path, headers }) => {
    if (method !== 'PATCH') return undefined
    paths.push(`${path} ${headers?.['content-type']}`)
    const { apiVersion, kind } = Gadget
    return { apiVersion, kind, metadata: { ...metadata, version: '9' }, spec: {} }
  }
  await client.apply(Gadget, { metadata: { name: 'a' }, spec: { size: 2 } })
  await client.applyStatus(
    Gadget,
    { metadata: { name: 'a' }, status: {} },
    { fieldManager: 'b', force: true },
  )
  const type = 'application/apply-patch+yaml'
  const at = `/apis/${Gadget.apiVersion}/${Gadget.plural}/a`
  expect(paths).toEqual([`${at}?fieldManager=mine ${type}`, `${at}/status?fieldManager=b&force=true ${type}`])
  expect(told).toEqual(['wrote a@9', 'wrote a@9'])
})

test('reports a deletion whose response shows no object as uncertain', async () => {
  const { told, server, client } = setUp()
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  told.length = 0
  // As of a sensitive kind.
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details: { name: 'a' } }
  server.answer = ({ method }) => (method === 'DELETE' ? status : undefined)
  expect(await client.delete(Gadget, 'a', { dryRun: true })).toBeUndefined()
  expect(told).toEqual([])
  expect(await client.delete(Gadget, 'a')).toBeUndefined()
  expect(told).toEqual(['uncertain a'])
})

test('reports a lost response as uncertain, and a refusal not at all', async () => {
  const { told, server, client } = setUp()
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  told.length = 0
  const failures: [Error, string[]][] = [
    [new ApiError('Conflict', 'no'), []],
    [new ApiError('Invalid', 'no'), []],
    [new ApiError('ServiceUnavailable', 'no'), []],
    [new ApiError('Timeout', 'perhaps'), ['uncertain a']],
    [new TransportError('lost'), ['uncertain a']],
  ]
  for (const [failure, expected] of failures) {
    server.onRequest = () => {
      throw failure
    }
    await expect(client.patch(Gadget, 'a', {})).rejects.toThrow(failure.message)
    expect(told.splice(0)).toEqual(expected)
  }
})

test.each(['the signal of the client', 'the signal of the call'])(
  'reports a write that %s aborts as uncertain, whatever the reason',
  async which => {
    const { told, server, abort, client } = setUp()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    told.length = 0
    const call = new AbortController()
    const reason = new DOMException('the run timed out', 'TimeoutError')
    server.onRequest = () => {
      const aborted = which === 'the signal of the call' ? call : abort
      aborted.abort(reason)
      throw reason
    }
    await expect(client.patch(Gadget, 'a', {}, { signal: call.signal })).rejects.toThrow(reason.message)
    expect(told).toEqual(['uncertain a'])
  },
)

test('sends nothing after the abort, even if the transport ignores the signal', async () => {
  const { observer, abort } = setUp()
  const sent: TransportRequest[] = []
  const deaf = createClient({
    request: async request => {
      sent.push(request)
      throw new TransportError('away')
    },
    watch: () => Promise.reject(new TransportError('away')),
  })
  const client = observeClient(deaf, observer, abort.signal, 'mine')
  abort.abort(new Error('over'))
  await expect(client.patch(Gadget, 'a', {}, { signal: new AbortController().signal })).rejects.toThrow(
    'over',
  )
  await expect(client.delete(Gadget, 'a')).rejects.toThrow('over')
  expect(sent).toEqual([])
})

test('leaves no listener in the signal of a call, which may outlive many runs', async () => {
  const { client, abort } = setUp()
  const { signal } = new AbortController()
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } }, { signal })
  const grow = ({ spec }: { spec: { size?: number } }) => {
    spec.size = 2
  }
  await client.createOrUpdate(Gadget, 'a', grow, { signal })
  await expect(client.get(Gadget, 'b', { signal })).rejects.toThrow()
  for await (const { metadata } of client.items(Gadget, { signal })) expect(metadata.name).toBe('a')
  const watch = await client.watch(Gadget, { signal })
  watch.close()
  await watch.end
  expect([signal, abort.signal].map(each => getEventListeners(each, 'abort').length)).toEqual([0, 0])
})
