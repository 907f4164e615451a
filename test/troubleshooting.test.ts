import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestText, sendRaw } from './support/raw-socket.ts'
import { runProgram, type ServerProcess, startServer } from './support/server.ts'
import { Users } from './support/users.ts'

/** docs/troubleshooting.md: each message that it explains is one that a user gets, with the status that it says. */

const page = await readFile(new URL('../docs/troubleshooting.md', import.meta.url), 'utf8')
const probes = '/apis/uptime.example.com/v1alpha1/probes'
const probe = { apiVersion: 'uptime.example.com/v1alpha1', kind: 'Probe' }
const spec = { url: 'http://127.0.0.1:9/' }

/** The rows of the table: the message's parts around its examples, and the status. */
const rows = page
  .slice(page.indexOf('\n## By error message\n'))
  .split('\n')
  .filter(line => line.startsWith('| `'))
  .map(line => {
    const [, message = '', status = ''] = line.split('|').map(cell => cell.trim())
    return { message: message.slice(1, -1), status }
  })

let folder: string
let users: Users<'bob'>
let open: ServerProcess
let guarded: ServerProcess

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-trouble-'))
  await mkdir(join(folder, 'data'))
  users = await Users.make({ bob: ['nobody'] })
  const plugins = [fileURLToPath(new URL('../plugins/uptime', import.meta.url))]
  const options = { plugins, args: ['--log-level', 'error'] }
  ;[open, guarded] = await Promise.all([
    startServer({ ...options, dataDir: join(folder, 'data') }),
    startServer({ ...options, args: [...options.args, ...users.args] }),
  ])
})
afterAll(async () => {
  await Promise.all([open?.stop(), guarded?.stop()])
  await users?.remove()
  await rm(folder, { recursive: true, force: true })
})

type Outcome = Promise<{ status: string; text: string }>

async function send(
  method: string,
  path: string,
  { body, type = 'application/json', headers = {}, server = open }: SendOptions = {},
): Outcome {
  const text = typeof body === 'string' ? body : body && JSON.stringify(body)
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { ...(text !== undefined && { 'content-type': type }), ...headers },
    body: text,
  })
  return { status: String(response.status), text: await response.text() }
}

interface SendOptions {
  readonly body?: object | string
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly server?: ServerProcess
}

const run = async (...args: string[]): Outcome => {
  const { code, stderr } = await runProgram(args, { cwd: folder })
  return { status: `exit ${code}`, text: stderr }
}
const serve = (...args: string[]) => run('serve', '--log-level', 'error', ...args)

const apply = (query: string, name: string) =>
  send('PATCH', `${probes}/${name}?${query}`, {
    body: { ...probe, metadata: { name }, spec: { url: 'http://127.0.0.1:8/' } },
    type: 'application/apply-patch+yaml',
  })

const shipped = 'setpoint-healthz'

/** Nothing is there. */
const webhook = { url: 'https://127.0.0.1:9/' }

/** Two versions, between which a webhook converts. */
const gadgets = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'gadgets.demo.example.com' },
  spec: {
    group: 'demo.example.com',
    scope: 'Cluster',
    names: { plural: 'gadgets', kind: 'Gadget' },
    versions: ['v1', 'v2'].map(name => ({
      ...{ name, served: true, storage: name === 'v1' },
      schema: { openAPIV3Schema: { type: 'object' } },
    })),
    conversion: {
      strategy: 'Webhook',
      webhook: { clientConfig: webhook, conversionReviewVersions: ['v1'] },
    },
  },
}
const admission = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'images' },
  webhooks: [
    {
      ...{ name: 'images.example.com', clientConfig: webhook, sideEffects: 'None' },
      admissionReviewVersions: ['v1'],
      rules: [
        { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['serviceaccounts'] },
      ],
    },
  ],
}

/** How to get each message. */
const provoked: Readonly<Record<string, () => Outcome>> = {
  'cannot listen on 127.0.0.1:8090: the port is in use': () =>
    serve('--listen', `127.0.0.1:${open.port}`, '--data-dir', join(folder, 'other')),
  'the data folder ... is in use by process': () =>
    serve('--listen', '127.0.0.1:0', '--data-dir', join(folder, 'data')),
  'is not a loopback address, and without authentication every caller could do everything': () =>
    serve('--listen', '0.0.0.0:0'),
  'holds no plugin': () => serve('--plugin', './none'),
  'is not empty; choose another with --dir': async () => {
    await mkdir(join(folder, 'kept', 'data'), { recursive: true })
    return run('create', 'plugin', 'kept', '--dir', join(folder, 'kept'))
  },
  'nothing is served at': () => send('GET', '/apis/none.example.com/v1/things'),
  'is not available: plugin uptime is disabled': async () => {
    const plugin = '/apis/plugins.setpoint.dev/v1/plugins/uptime'
    const enable = (enabled: boolean) =>
      send('PATCH', plugin, { body: { spec: { enabled } }, type: 'application/merge-patch+json' })
    await enable(false)
    await expect.poll(async () => (await send('GET', probes)).status).toBe('503')
    const refused = await send('GET', probes)
    await enable(true)
    await expect.poll(async () => (await send('GET', probes)).status).toBe('200')
    return refused
  },
  'conversion webhook for demo.example.com/v1, Kind=Gadget failed': async () => {
    await send('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', { body: gadgets })
    const objects = '/apis/demo.example.com/v1/gadgets'
    const gadget = { apiVersion: 'demo.example.com/v1', kind: 'Gadget', metadata: { name: 'a' } }
    await expect.poll(async () => (await send('POST', objects, { body: gadget })).status).toBe('201')
    return send('GET', '/apis/demo.example.com/v2/gadgets/a')
  },
  'failed calling webhook "images.example.com"': async () => {
    const configurations = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations'
    await send('POST', configurations, { body: admission })
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot' } }
    return send('POST', '/api/v1/namespaces/default/serviceaccounts', { body: account })
  },
  'the body is empty, expected a document': () => send('POST', probes),
  'is not supported here, only application/json and application/yaml': () =>
    send('POST', probes, { body: 'a=b', type: 'application/x-www-form-urlencoded' }),
  'the body is of kind "Prob" and apiVersion': () =>
    send('POST', probes, { body: { ...probe, kind: 'Prob' } }),
  'operation cannot be fulfilled on ...: the object has been modified': () =>
    send('PUT', `${probes}/${shipped}`, {
      body: { ...probe, metadata: { name: shipped, version: '1' }, spec },
    }),
  'already exists': () => send('POST', probes, { body: { ...probe, metadata: { name: shipped }, spec } }),
  'Apply failed with 1 conflict': () => apply('fieldManager=me', shipped),
  'fieldManager: is required for an apply': () => apply('', shipped),
  'strict decoding error: unknown field': () =>
    send('POST', `${probes}?fieldValidation=Strict`, {
      body: { ...probe, metadata: { name: 'a' }, spec: { ...spec, ulr: 1 } },
    }),
  'is invalid': () =>
    send('POST', probes, { body: { ...probe, metadata: { name: 'a' }, spec: { url: 'x' } } }),
  'the indexes are metadata.name': () => send('GET', `${probes}?sort=spec.interval`),
  'namespaces "team-x" not found': () =>
    send('POST', '/api/v1/namespaces/team-x/configmaps', {
      body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } },
    }),
  'Too large resource version': () => send('GET', `${probes}?resourceVersion=99999999`),
  'is no longer kept: list again': () =>
    send('GET', `${probes}?resourceVersion=1&resourceVersionMatch=Exact`),
  'a token is required: Authorization: Bearer': () => send('GET', '/apis', { server: guarded }),
  'the token is invalid': () =>
    send('GET', '/apis', { server: guarded, headers: { authorization: 'Bearer wrong' } }),
  'cannot list resource "probes" in API group': () =>
    send('GET', probes, { server: guarded, headers: users.headersOf('bob') }),
  'is not local; without authentication only local callers are allowed': async () => {
    const { status, text } = await sendRaw(open.port, requestText(`GET ${probes}`, { host: 'evil.example' }))
    return { status: String(status), text }
  },
  'may not call this server; --allowed-origin names those that may': () =>
    send('GET', '/apis', {
      server: guarded,
      headers: { ...users.headersOf('bob'), origin: 'https://x.example' },
    }),
  'aliases are not supported: repeat the value instead': () =>
    send('POST', probes, { body: 'a: &x 1\nb: *x', type: 'application/yaml' }),
}

/** `read-gate.test.ts` has it: it needs a store that does not respond. */
const elsewhere = ['the state cannot be read now']

test('the page explains the messages that are tried here', () => {
  expect(rows.map(({ message }) => message).sort()).toEqual([...Object.keys(provoked), ...elsewhere].sort())
})

test.each(rows.filter(({ message }) => !elsewhere.includes(message)))(
  '$status: $message',
  async ({ message, status }) => {
    const outcome = await provoked[message]?.()
    expect(outcome?.status).toBe(status)
    const text = outcome?.text.replaceAll('\\"', '"').replaceAll(String(open.port), '8090')
    for (const part of message.split('...')) expect(text).toContain(part.trim())
  },
)
