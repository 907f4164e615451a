import { rm } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { configure, everyRule, ruleFor, unconfigure, warningsOf } from './support/admission.ts'
import { AdmissionWebhook, patchOf, type Review, sendReview } from './support/admission-webhook.ts'
import type { Answer, Collection } from './support/api.ts'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { type Fields, fieldsOf } from './support/json.ts'
import { devicesOf, itemsOf } from './support/kinds.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

let certificates: Certificates
beforeAll(async () => {
  certificates = await makeCertificates('DNS:hooks.shop.svc')
})
afterAll(() => certificates && rm(certificates.folder, { recursive: true, force: true }))

/** Mutating and validating webhooks over HTTPS. */
describe.each(stores)('webhooks on %s', store => {
  let world: SharedWorld
  let items: Collection
  const hooks: AdmissionWebhook[] = []
  const rule = ruleFor('items.example.com', 'items')

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin', 'places-plugin'])
    items = itemsOf(world.api)
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    await unconfigure(world.api)
    for (const hook of hooks.splice(0)) await hook[Symbol.asyncDispose]()
    await items.clear()
  })

  async function start(): Promise<AdmissionWebhook> {
    const hook = await AdmissionWebhook.start(certificates)
    hooks.push(hook)
    return hook
  }

  const fieldsOfHook = (hook: AdmissionWebhook, name: string, more: object = {}): Fields => ({
    name: `${name}.example.com`,
    clientConfig: hook.client,
    rules: [rule],
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    ...more,
  })
  const validating = (name: string, ...webhooks: Fields[]) =>
    configure(world.api, 'ValidatingWebhookConfiguration', name, { webhooks })
  const mutating = (name: string, ...webhooks: Fields[]) =>
    configure(world.api, 'MutatingWebhookConfiguration', name, { webhooks })
  const tryItem = (spec: object, metadata: object = {}) =>
    world.api.post(items.path, items.body('a', spec, metadata))
  const shown = ({ status, body }: Answer) => {
    const { reason, message } = fieldsOf(body)
    return { status, reason, message }
  }

  it('are asked about a write as Kubernetes does it', async () => {
    const hook = await start()
    await validating('v', fieldsOfHook(hook, 'one.v', { rules: [everyRule('items.example.com', '*')] }))
    const created = await tryItem({ count: 1 })
    await world.api.put(items.at('a'), items.body('a', { count: 2 }))
    await world.api.delete(`${items.at('a')}?propagationPolicy=Background`)
    expect(hook.asked).toEqual(['CREATE a', 'UPDATE a', 'DELETE a'])
    const [create, update, remove] = hook.reviews.map(({ request }) => request)
    const { uid, ...request } = fieldsOf(create)
    expect(uid).toMatch(/^[-0-9a-f]{36}$/)
    const { version: _version, resourceVersion, ...metadata } = fieldsOf(fieldsOf(created.body).metadata)
    const object = { apiVersion: 'items.example.com/v1', kind: 'Item', metadata, spec: { count: 1 } }
    const kind = { group: 'items.example.com', version: 'v1', kind: 'Item' }
    const resource = { group: 'items.example.com', version: 'v1', resource: 'items' }
    expect(request).toEqual({
      kind,
      resource,
      requestKind: kind,
      requestResource: resource,
      name: 'a',
      operation: 'CREATE',
      userInfo: expect.objectContaining({ username: expect.any(String), groups: expect.any(Array) }),
      object,
      oldObject: null,
      dryRun: false,
      options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
    })
    expect(update).toMatchObject({
      oldObject: { metadata: { ...metadata, resourceVersion }, spec: { count: 1 } },
      object: { metadata: { uid: metadata.uid, generation: 2 }, spec: { count: 2 } },
      options: { kind: 'UpdateOptions' },
    })
    expect(remove).toMatchObject({
      object: null,
      oldObject: { spec: { count: 2 } },
      options: { kind: 'DeleteOptions', propagationPolicy: 'Background' },
    })
    expect(hook.reviews[0]?.url).toBe('/review?timeout=10s')
    expect(hook.reviews[0]?.headers['content-type']).toBe('application/json')
  })

  it('that mutate change the object, one after another, before it gets its defaults and is checked', async () => {
    const [first, second, judge] = [await start(), await start(), await start()]
    first.respond = () => patchOf({ op: 'add', path: '/spec/title', value: 'one' })
    second.respond = ({ request }) => {
      const { spec } = fieldsOf(request.object)
      return patchOf(
        { op: 'replace', path: '/spec/title', value: `${fieldsOf(spec).title}+two` },
        { op: 'add', path: '/metadata/labels', value: { by: 'second' } },
      )
    }
    await mutating('b', fieldsOfHook(second, 'second.b'))
    await mutating('a', fieldsOfHook(first, 'first.a'))
    await validating('v', fieldsOfHook(judge, 'judge.v'))
    const created = await tryItem({})
    expect(created.body).toMatchObject({ metadata: { labels: { by: 'second' } }, spec: { title: 'one+two' } })
    expect(judge.reviews[0]?.request.object).toMatchObject({ spec: { title: 'one+two' } })
    second.respond = () => patchOf({ op: 'replace', path: '/spec/title', value: 'much too long' })
    const refused = await world.api.mergePatch(items.at('a'), { spec: { count: 1 } })
    expect(shown(refused)).toMatchObject({ status: 422, reason: 'Invalid' })
    expect(judge.asked).toEqual(['CREATE a'])
  })

  it('that mutate are asked again if they want it and another one has changed the object after them', async () => {
    const [first, second] = [await start(), await start()]
    const specOf = ({ request }: Review) => fieldsOf(fieldsOf(request.object).spec)
    first.respond = review =>
      specOf(review).mode === undefined
        ? { allowed: true }
        : patchOf({ op: 'add', path: '/spec/level', value: String(first.reviews.length) })
    second.respond = review =>
      specOf(review).mode === 'on'
        ? { allowed: true }
        : patchOf({ op: 'add', path: '/spec/mode', value: 'on' })
    await mutating(
      'm',
      fieldsOfHook(first, 'first.m', { reinvocationPolicy: 'IfNeeded' }),
      fieldsOfHook(second, 'second.m', { reinvocationPolicy: 'IfNeeded' }),
    )
    expect((await tryItem({})).body).toMatchObject({ spec: { mode: 'on', level: '2' } })
    expect([first.reviews.length, second.reviews.length]).toEqual([2, 2])
  })

  it('that deny a write decide the status, and all of those that validate are asked', async () => {
    const [one, two] = [await start(), await start()]
    one.respond = () => ({ allowed: false, status: { code: 418, reason: 'Teapot', message: 'no coffee' } })
    two.respond = () => ({ allowed: false })
    await validating('v', fieldsOfHook(one, 'one.v'), fieldsOfHook(two, 'two.v'))
    const refused = await tryItem({})
    const message = 'admission webhook "one.v.example.com" denied the request: no coffee'
    expect(shown(refused)).toEqual({ status: 418, reason: 'Teapot', message })
    expect(two.reviews).toHaveLength(1)
    one.respond = () => ({ allowed: true })
    expect(shown(await tryItem({}))).toEqual({
      status: 400,
      reason: undefined,
      message: 'admission webhook "two.v.example.com" denied the request without explanation',
    })
    expect((await items.list()).names).toEqual([])
  })

  it.each([
    ['AlreadyExists', 409],
    ['NotFound', 404],
    ['Conflict', 409],
  ])('that deny with %s end the request like any other denial', async (reason, code) => {
    const hook = await start()
    hook.respond = () => ({ allowed: false, status: { reason, code, message: 'x' } })
    await validating('v', fieldsOfHook(hook, 'one.v', { rules: [everyRule('items.example.com', '*')] }))
    const body = {
      apiVersion: 'items.example.com/v1',
      kind: 'Item',
      metadata: { generateName: 'g-' },
      spec: {},
    }
    expect(shown(await world.api.post(items.path, body))).toMatchObject({ status: code, reason })
    const apply = await world.api.request('PATCH', `${items.at('a')}?fieldManager=m`, items.body('a', {}), {
      type: 'application/apply-patch+yaml',
    })
    expect(shown(apply)).toMatchObject({ status: code, reason })
    expect(hook.reviews).toHaveLength(2)
  })

  it('send warnings, also with a denial', async () => {
    const hook = await start()
    hook.respond = ({ request }) => ({
      allowed: request.operation === 'CREATE',
      warnings: ['mind the gap', 'b'],
    })
    await validating('v', fieldsOfHook(hook, 'one.v'))
    expect(warningsOf(await tryItem({}))).toEqual(['mind the gap', 'b'])
    const refused = await world.api.mergePatch(items.at('a'), { spec: { count: 1 } })
    expect([refused.status, warningsOf(refused)]).toEqual([400, ['mind the gap', 'b']])
    const long = Array.from({ length: 30 }, (_, at) => `${at}${'x'.repeat(400)}`)
    hook.respond = () => ({ allowed: true, warnings: long })
    const many = warningsOf(await world.api.mergePatch(items.at('a'), { spec: { count: 2 } }))
    expect(many[0]).toHaveLength(256)
    expect(many.join('').length).toBeLessThan(5_000)
  })

  const faults: readonly (readonly [what: string, fault: (hook: AdmissionWebhook) => void, why: string])[] = [
    [
      'responds with 500',
      hook => (hook.raw = response => response.writeHead(500).end('secret')),
      'status 500',
    ],
    [
      'redirects',
      hook => (hook.raw = response => response.writeHead(307, { location: 'https://127.0.0.1:1/' }).end()),
      'status 307',
    ],
    ['cuts the connection', hook => (hook.raw = response => response.destroy()), 'the connection was reset'],
    [
      'cuts it within the body',
      hook =>
        (hook.raw = response => {
          response.writeHead(200, { 'content-length': 1000 }).write('{"')
          setImmediate(() => response.destroy())
        }),
      'the connection was reset',
    ],
    ['responds with another text', hook => (hook.raw = response => response.end('secret')), 'is not JSON'],
    [
      'responds with too much',
      hook => (hook.raw = response => response.end(`{"x":"${'x'.repeat(3 * 1024 * 1024)}"}`)),
      'has more than 3145728 bytes',
    ],
    [
      'responds with another uid',
      hook => (hook.raw = (response, review) => sendReview(response, review, { uid: 'x', allowed: true })),
      'expected response.uid=',
    ],
    [
      'responds with another kind',
      hook =>
        (hook.raw = (response, { request }) =>
          response.end(JSON.stringify({ kind: 'List', response: { uid: request.uid, allowed: true } }))),
      'expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview',
    ],
    ['gives no response', hook => (hook.raw = response => response.end('{}')), 'was absent'],
    [
      'gives a field another type',
      hook => (hook.respond = () => ({ allowed: 'yes' })),
      'has another type of allowed',
    ],
    [
      'patches although it validates',
      hook => (hook.respond = () => patchOf({ op: 'remove', path: '/spec' })),
      'may not return response.patch',
    ],
  ]

  it.each(faults)(
    'that fail refuse a write, unless their failures are ignored: one that %s',
    async (_what, fault, why) => {
      const hook = await start()
      fault(hook)
      await validating('v', fieldsOfHook(hook, 'one.v'))
      const refused = await tryItem({})
      expect(shown(refused)).toMatchObject({ status: 500, reason: 'InternalError' })
      expect(refused.text).toContain(
        String.raw`Internal error occurred: failed calling webhook \"one.v.example.com\": `,
      )
      expect(refused.text).toContain(why)
      expect(refused.text).not.toContain('secret')
      await unconfigure(world.api)
      await validating('v', fieldsOfHook(hook, 'one.v', { failurePolicy: 'Ignore' }))
      expect((await tryItem({})).status).toBe(201)
    },
  )

  it('that hang are given up in their time, and other writes go on meanwhile', async () => {
    const hook = await start()
    hook.raw = () => {}
    await validating('v', fieldsOfHook(hook, 'one.v', { timeoutSeconds: 1 }))
    const hanging = tryItem({})
    const devices = devicesOf(world.api)
    await devices.create('d', { size: 1 })
    await world.api.delete(devices.at('d'))
    const refused = await hanging
    expect(refused.status).toBe(500)
    expect(refused.text).toContain('?timeout=1s')
    expect(refused.text).toContain('context deadline exceeded')
  })

  it('are not called if their certificate is not trusted', async () => {
    const other = await makeCertificates()
    try {
      const hook = await start()
      const stranger = await AdmissionWebhook.start(other)
      hooks.push(stranger)
      const clientConfig = { ...stranger.client, caBundle: hook.caBundle }
      await validating('v', fieldsOfHook(stranger, 'one.v', { clientConfig }))
      expect((await tryItem({})).text).toContain('failed to verify certificate')
      await unconfigure(world.api)
      const { url } = stranger.client
      await validating('v', fieldsOfHook(stranger, 'one.v', { clientConfig: { url } }))
      expect((await tryItem({})).text).toContain('failed to verify certificate')
      expect(stranger.reviews).toEqual([])
    } finally {
      await rm(other.folder, { recursive: true, force: true })
    }
  })

  it.each([
    ['a patch that does not apply', () => patchOf({ op: 'remove', path: '/spec/none' }), 'cannot be applied'],
    [
      'no list of operations',
      () => ({ allowed: true, patchType: 'JSONPatch', patch: 'e30=' }),
      'a list of operations',
    ],
    [
      'an unknown type of patch',
      () => ({ ...patchOf({}), patchType: 'Merge' }),
      'only JSONPatch is supported',
    ],
  ])('that mutate refuse a write with %s', async (_what, respond, why) => {
    const hook = await start()
    hook.respond = respond
    await mutating('m', fieldsOfHook(hook, 'one.m'))
    const refused = await tryItem({})
    expect(shown(refused)).toMatchObject({ status: 500, reason: 'InternalError' })
    expect(refused.text).toContain('one.m.example.com')
    expect(refused.text).toContain(why)
  })

  it('cannot change the kind, as in Kubernetes', async () => {
    const hook = await start()
    hook.respond = () => patchOf({ op: 'replace', path: '/kind', value: 'Vault' })
    await mutating('m', fieldsOfHook(hook, 'one.m'))
    const refused = await tryItem({})
    expect(shown(refused)).toMatchObject({ status: 422, reason: 'Invalid' })
    expect(refused.text).toContain('kind: must be ')
  })

  it('are asked about dry runs', async () => {
    const hook = await start()
    await validating('v', fieldsOfHook(hook, 'one.v', { sideEffects: 'NoneOnDryRun' }))
    const dry = await world.api.post(`${items.path}?dryRun=All`, items.body('a', {}))
    expect(dry.status).toBe(201)
    expect(hook.reviews[0]?.request).toMatchObject({ dryRun: true, options: { dryRun: ['All'] } })
  })

  it('of other versions of the review get it in their version', async () => {
    const hook = await start()
    await validating('v', fieldsOfHook(hook, 'one.v', { admissionReviewVersions: ['v2', 'v1beta1', 'v1'] }))
    expect((await tryItem({})).status).toBe(201)
    expect(hook.reviews[0]?.apiVersion).toBe('admission.k8s.io/v1beta1')
  })

  it('are chosen by their match conditions, and get only what these let pass', async () => {
    const hook = await start()
    const matchConditions = [
      { name: 'not-system', expression: "!request.userInfo.username.startsWith('system:')" },
      { name: 'big', expression: 'object.spec.count > 10' },
    ]
    await validating('v', fieldsOfHook(hook, 'one.v', { matchConditions }))
    expect((await tryItem({ count: 1 })).status).toBe(201)
    expect(hook.reviews).toEqual([])
    await world.api.mergePatch(items.at('a'), { spec: { count: 11 } })
    expect(hook.asked).toEqual(['UPDATE a'])
    const refused = await world.api.mergePatch(items.at('a'), { spec: { count: null } })
    expect(shown(refused)).toMatchObject({ status: 403, reason: 'Forbidden' })
    expect(hook.reviews).toHaveLength(1)
  })

  it('do not keep the server from its own writes, and its configuration from being removed', async () => {
    const hook = await start()
    hook.raw = response => response.destroy()
    await validating('v', fieldsOfHook(hook, 'one.v', { rules: [everyRule('*', '*/*')] }))
    expect((await tryItem({})).status).toBe(500)
    const path = '/api/v1/namespaces'
    expect((await world.api.post(path, { metadata: { name: 'doomed' } })).status).toBe(500)
    const event = { operations: ['CREATE'], apiGroups: [''], apiVersions: ['*'], resources: ['configmaps'] }
    await unconfigure(world.api)
    await world.api.post(path, { metadata: { name: 'doomed' } })
    await world.api.post(`${path}/doomed/configmaps`, { metadata: { name: 'c' } })
    await validating('v', fieldsOfHook(hook, 'one.v', { rules: [{ ...event, operations: ['*'] }] }))
    await world.api.delete(`${path}/doomed`)
    await expect.poll(async () => (await world.api.get(`${path}/doomed`)).status).toBe(404)
  })

  it('count in the metrics, by their names', async () => {
    const hook = await start()
    await validating('v', fieldsOfHook(hook, 'counted.v'))
    await tryItem({})
    hook.respond = () => ({ allowed: false })
    await world.api.mergePatch(items.at('a'), { spec: { count: 1 } })
    hook.raw = response => response.destroy()
    await world.api.mergePatch(items.at('a'), { spec: { count: 1 } })
    const { text } = await world.api.get('/metrics')
    const name = 'name="counted.v.example.com"'
    const lines = text.split('\n').filter(line => line.includes(name) && !line.includes('_bucket'))
    expect(lines.map(line => line.replace(/ \S+$/, '')).sort()).toEqual(
      expect.arrayContaining([
        `apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",${name},operation="UPDATE",rejection_code="503",type="validating"}`,
        `apiserver_admission_webhook_rejection_count{error_type="no_error",${name},operation="UPDATE",rejection_code="400",type="validating"}`,
        `apiserver_admission_webhook_request_total{code="200",${name},operation="CREATE",rejected="false",type="validating"}`,
      ]),
    )
  })
})
