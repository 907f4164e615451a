import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { bindPolicy, configure, ruleFor, unconfigure } from './support/admission.ts'
import { AdmissionWebhook } from './support/admission-webhook.ts'
import { Api, type Collection } from './support/api.ts'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import type { Fields } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import { type RunningServer, runProgram } from './support/server.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

let certificates: Certificates
beforeAll(async () => {
  certificates = await makeCertificates('DNS:hooks.shop.svc')
})
afterAll(() => certificates && rm(certificates.folder, { recursive: true, force: true }))

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** A configuration with one webhook for items. */
function configuration(clientConfig: Fields, more: object = {}): Fields {
  const rules = [ruleFor('items.example.com', 'items')]
  const name = 'one.v.example.com'
  const webhook = { name, clientConfig, rules, sideEffects: 'None', admissionReviewVersions: ['v1'], ...more }
  return { webhooks: [webhook] }
}

async function startHook(): Promise<AdmissionWebhook> {
  const hook = await AdmissionWebhook.start(certificates)
  cleanups.push(() => hook[Symbol.asyncDispose]())
  return hook
}

async function startServer(
  ...args: string[]
): Promise<{ readonly world: SharedWorld; readonly items: Collection }> {
  const world = await startSharedWorld('embedded', ['items-plugin'], { args })
  cleanups.push(() => world.end())
  return { world, items: itemsOf(world.api) }
}

describe('two servers on one etcd', () => {
  let world: SharedWorld
  let other: RunningServer

  beforeAll(async () => {
    world = await startSharedWorld('etcd', ['items-plugin'])
    other = await world.another()
  })
  afterAll(() => world?.end())

  it('ask the same webhooks and policies, as soon as their caches have them', async () => {
    const hook = await startHook()
    const there = itemsOf(new Api(other.url))
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(hook.client))
    // A list there has everything that was acknowledged here, so the cache has it too.
    await there.api.get('/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations')
    await there.create('a', { count: 1 })
    expect(hook.asked).toEqual(['CREATE a'])
    await bindPolicy(world.api, 'p', ruleFor('items.example.com', 'items'), {
      validations: [{ expression: 'object.spec.count < 5' }],
    })
    await there.api.get('/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings')
    expect((await there.api.mergePatch(there.at('a'), { spec: { count: 7 } })).status).toBe(422)
    await unconfigure(new Api(other.url))
    expect((await there.api.mergePatch(there.at('a'), { spec: { count: 8 } })).status).toBe(200)
  })

  it('ask about the newer state after the other one has written the object meanwhile', async () => {
    const hook = await startHook()
    const [here, there] = [itemsOf(world.api), itemsOf(new Api(other.url))]
    await here.create('b', { count: 0 })
    let isFirst = true
    hook.respond = async ({ request }) => {
      const wasFirst = isFirst
      isFirst = false
      if (wasFirst) await here.api.mergePatch(here.at('b'), { spec: { title: 'other' } })
      return { allowed: request.operation === 'UPDATE' }
    }
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(hook.client))
    await there.api.get('/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations')
    const patched = await there.api.mergePatch(there.at('b'), { spec: { count: 1 } })
    expect(patched.body).toMatchObject({ spec: { count: 1, title: 'other' } })
    // The write of the other one, and the two attempts at this one.
    expect(hook.reviews).toHaveLength(3)
    expect(hook.reviews.at(-1)?.request).toMatchObject({
      oldObject: { spec: { count: 0, title: 'other' } },
      object: { spec: { count: 1, title: 'other' } },
    })
    await unconfigure(world.api)
  })
})

describe('a webhook process', () => {
  it('that is killed refuses writes, and takes them again once it is back', async () => {
    const { world, items } = await startServer()
    const port = await freePort()
    const start = async (): Promise<ChildProcess> => {
      const program = fileURLToPath(new URL('./fixtures/admission-hook.mjs', import.meta.url))
      const { cert, key } = certificates
      const child = spawn(process.execPath, [program, cert, key, String(port)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      cleanups.push(async () => child.kill('SIGKILL'))
      if (child.stdout !== null) await once(child.stdout, 'data')
      return child
    }
    const caBundle = (await readFile(certificates.ca)).toString('base64')
    const clientConfig = { url: `https://127.0.0.1:${port}`, caBundle }
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(clientConfig))
    const first = await start()
    await items.create('a', { count: 1 })
    first.kill('SIGKILL')
    await once(first, 'close')
    const refused = await world.api.mergePatch(items.at('a'), { spec: { count: 2 } })
    expect([refused.status, refused.text]).toEqual([500, expect.stringContaining('one.v.example.com')])
    await start()
    expect((await world.api.mergePatch(items.at('a'), { spec: { count: 3 } })).status).toBe(200)
  })
})

describe('a service', () => {
  it('is where the operator says, with a certificate for its name', async () => {
    const hook = await startHook()
    const { world, items } = await startServer(
      '--webhook-service',
      `shop/hooks=https://localhost:${hook.port}`,
    )
    const service = { namespace: 'shop', name: 'hooks', path: '/validate' }
    const client = { service, caBundle: hook.caBundle }
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(client))
    await items.create('a', {})
    expect(hook.reviews[0]?.url).toBe('/validate?timeout=10s')
    expect(hook.reviews[0]?.headers.host).toBe(`localhost:${hook.port}`)
  })

  it('that no flag names cannot be called, and the refusal says which flag', async () => {
    const { world, items } = await startServer()
    const client = { service: { namespace: 'shop', name: 'other' } }
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(client))
    const refused = await world.api.post(items.path, items.body('a', {}))
    expect(refused.text).toContain('--webhook-service shop/other=https://<host>:<port>')
    expect(refused.status).toBe(500)
  })

  it.each([
    'hooks=https://localhost:1',
    'shop/hooks=http://localhost:1',
    'shop/hooks=https://localhost:1/path',
    'shop/hooks',
  ])('that a flag names wrongly stops the start: %s', async text => {
    const { code, stderr } = await runProgram(['serve', '--webhook-service', text])
    expect([code, stderr]).toEqual([2, expect.stringContaining('NAMESPACE/NAME=https://HOST:PORT')])
  })
})

describe('the URL of a webhook', () => {
  it.each([
    ['--webhook-denied-network=127.0.0.0/8', 'deniedNetworks'],
    ['--webhook-allowed-host=hooks.example.com', 'allowedHosts'],
  ])('leads nowhere that the operator does not allow: %s', async (flag, why) => {
    const hook = await startHook()
    const { world, items } = await startServer(flag)
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(hook.client))
    const refused = await world.api.post(items.path, items.body('a', {}))
    expect([refused.status, refused.text]).toEqual([500, expect.stringContaining(why)])
    expect(hook.reviews).toEqual([])
  })

  it('does not lead to the metadata service of a cloud', async () => {
    const { world, items } = await startServer()
    const client = { url: 'https://169.254.169.254/latest' }
    await configure(world.api, 'ValidatingWebhookConfiguration', 'v', configuration(client))
    const refused = await world.api.post(items.path, items.body('a', {}))
    expect(refused.text).toContain('169.254.169.254 is in a network of the setting deniedNetworks')
  })
})

describe('a kind with two versions', () => {
  it('is shown to webhooks and policies in the version that they match', async () => {
    const world = await startSharedWorld('embedded', ['apply-plugin'])
    cleanups.push(() => world.end())
    const { api } = world
    const hook = await startHook()
    const path = (version: string) => `/apis/apply.example.com/${version}/widgets`
    const widget = (version: string, name: string, spec: object) => ({
      apiVersion: `apply.example.com/${version}`,
      kind: 'Widget',
      metadata: { name },
      spec,
    })
    const rules = [{ ...ruleFor('apply.example.com', 'widgets'), apiVersions: ['v1beta1'] }]
    await configure(api, 'MutatingWebhookConfiguration', 'm', configuration(hook.client, { rules }))
    hook.respond = ({ request }) => {
      expect(request.object).toMatchObject({ apiVersion: 'apply.example.com/v1beta1' })
      const patch = [{ op: 'add', path: '/spec/amount', value: 7 }]
      return {
        allowed: true,
        patchType: 'JSONPatch',
        patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
      }
    }
    const created = await api.post(path('v1'), widget('v1', 'a', { title: 'x', size: 2 }))
    expect(created.body).toMatchObject({ apiVersion: 'apply.example.com/v1', spec: { title: 'x', size: 7 } })
    expect(hook.reviews[0]?.request).toMatchObject({
      kind: { version: 'v1beta1' },
      requestKind: { version: 'v1' },
      object: { spec: { title: 'x', amount: 2 } },
    })
    await unconfigure(api)
    await configure(
      api,
      'MutatingWebhookConfiguration',
      'm',
      configuration(hook.client, { rules, matchPolicy: 'Exact' }),
    )
    await api.post(path('v1'), widget('v1', 'b', { size: 2 }))
    expect(hook.reviews).toHaveLength(1)
    await unconfigure(api)
    await bindPolicy(api, 'p', rules[0] ?? {}, { validations: [{ expression: 'object.spec.amount < 5' }] })
    expect((await api.post(path('v1'), widget('v1', 'c', { size: 9 }))).status).toBe(422)
    expect((await api.post(path('v1beta1'), widget('v1beta1', 'd', { amount: 3 }))).status).toBe(201)
  })
})
