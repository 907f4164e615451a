import { describe, expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { Client } from './client.ts'
import { createClient } from './create-client.ts'
import { observeClient } from './observed-client.ts'

const server = new MemoryServer()
const plain = createClient(server)
const observed = observeClient(plain, { wrote() {}, uncertain() {} }, new AbortController().signal, 'mine')
const object = { metadata: { name: 'a' }, spec: { size: 1 } }

/** Each call with options that its type does not allow. */
const calls: Record<
  string,
  [call: (client: Client, options: object) => unknown, option: string, advice: string]
> = {
  get: [
    (client, options) => client.get(Gadget, 'a', options),
    'resourceversion',
    'did you mean resourceVersion?',
  ],
  list: [(client, options) => client.list(Gadget, options), 'labelSelectors', 'did you mean labelSelector?'],
  items: [
    (client, options) => client.items(Gadget, options)[Symbol.asyncIterator]().next(),
    'limit',
    'valid keys are signal, labelSelector, fieldSelector, sort, pageSize',
  ],
  create: [(client, options) => client.create(Gadget, object, options), 'dryrun', 'did you mean dryRun?'],
  update: [(client, options) => client.update(Gadget, object, options), 'version', 'valid keys are'],
  patch: [(client, options) => client.patch(Gadget, 'a', {}, options), 'versions', 'did you mean version?'],
  apply: [
    (client, options) => client.apply(Gadget, object, options),
    'fieldmanager',
    'did you mean fieldManager?',
  ],
  createOrUpdate: [
    (client, options) => client.createOrUpdate(Gadget, 'a', () => {}, options),
    'attempt',
    'did you mean attempts?',
  ],
  delete: [
    (client, options) => client.delete(Gadget, 'a', options),
    'precondition',
    'did you mean preconditions?',
  ],
  watch: [(client, options) => client.watch(Gadget, options), 'fieldselector', 'did you mean fieldSelector?'],
}

describe.each([
  ['a client', plain],
  ["a reconciler's client", observed],
])('%s', (_, client) => {
  test.each(Object.entries(calls))(
    'refuses unknown options of %s and sends nothing',
    async (method, [call, option, advice]) => {
      let requests = 0
      server.onRequest = () => {
        requests++
      }
      await expect(call(client, { [option]: 'x' })).rejects.toThrow(
        new RegExp(`^unknown key ${option} in the options of ${method}, ${advice.replace('?', '\\?')}`),
      )
      expect(requests).toBe(0)
    },
  )

  test('points to inNamespace for an option namespace', async () => {
    const options: object = { namespace: 'team-a' }
    await expect(client.list(Gadget, options)).rejects.toThrow(
      'list has no option namespace: use client.inNamespace(namespace).list(...)',
    )
  })

  test("refuses a kind's name in place of a model", async () => {
    const model = JSON.parse('"Gadget"')
    await expect(client.get(model, 'a')).rejects.toThrow(
      "expected a model, which defineModel returns, but got 'Gadget'",
    )
  })

  test('refuses unknown preconditions, without which a deletion would be unconditional', async () => {
    const options: object = { preconditions: { uuid: 'x' } }
    await expect(client.delete(Gadget, 'a', options)).rejects.toThrow(
      'unknown key uuid in the preconditions of delete, did you mean uid?',
    )
  })

  test('accepts every option of a type', async () => {
    const signal = new AbortController().signal
    await client.create(Gadget, object, { signal, dryRun: false, fieldValidation: 'Strict' })
    expect(await client.get(Gadget, 'a', { signal, resourceVersion: '0' })).toMatchObject(object)
    await client.createOrUpdate(Gadget, 'a', () => {}, { attempts: 2, random: () => 0, dryRun: false })
    await client.delete(Gadget, 'a', { dryRun: false, signal })
  })
})
