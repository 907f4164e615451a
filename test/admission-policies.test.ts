import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { bindPolicy, configure, everyRule, ruleFor, unconfigure, warningsOf } from './support/admission.ts'
import type { Collection } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { devicesOf, itemsOf, placesIn } from './support/kinds.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/** ValidatingAdmissionPolicies with their bindings and parameters, over HTTP. */
describe.each(stores)('a policy on %s', store => {
  let world: SharedWorld
  let items: Collection
  const rule = ruleFor('items.example.com', 'items')

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin', 'places-plugin'])
    items = itemsOf(world.api)
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    await unconfigure(world.api)
    await items.clear()
  })

  /** Returns the status of a creation. */
  const tryItem = async (spec: object, metadata: object = {}) =>
    world.api.post(items.path, items.body('a', spec, metadata))

  it('refuses a write that a validation is not true for, in the form of Kubernetes', async () => {
    await bindPolicy(world.api, 'limits', rule, {
      validations: [{ expression: 'object.spec.count <= 5', message: 'too many' }],
    })
    const { status, body } = await tryItem({ count: 6 })
    const message = "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: too many"
    expect({ status, body }).toEqual({
      status: 422,
      body: {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        message: `items.items.example.com "a" is forbidden: ${message}`,
        reason: 'Invalid',
        details: { name: 'a', group: 'items.example.com', kind: 'items', causes: [{ message }] },
        code: 422,
      },
    })
    expect((await world.api.get(items.at('a'))).status).toBe(404)
    expect((await tryItem({ count: 5 })).status).toBe(201)
    const patched = await world.api.mergePatch(items.at('a'), { spec: { count: 7 } })
    expect(patched.status).toBe(422)
    expect((await items.read('a')).spec.count).toBe(5)
  })

  it.each([
    ['Forbidden', 403],
    ['RequestEntityTooLarge', 413],
    ['Invalid', 422],
  ])('responds with the reason that the validation has: %s', async (reason, code) => {
    const validations = [{ expression: 'false', messageExpression: "'no ' + object.metadata.name", reason }]
    await bindPolicy(world.api, 'p', rule, { validations })
    const { status, body } = await tryItem({})
    expect({ status, reason: fieldsOf(body).reason }).toEqual({ status: code, reason })
    expect(fieldsOf(body).message).toMatch(/denied request: no a$/)
  })

  it('does nothing without a binding, and only where the binding matches', async () => {
    const spec = { matchConstraints: { resourceRules: [rule] }, validations: [{ expression: 'false' }] }
    await configure(world.api, 'ValidatingAdmissionPolicy', 'p', { spec })
    expect((await tryItem({})).status).toBe(201)
    await items.clear()
    await configure(world.api, 'ValidatingAdmissionPolicyBinding', 'b', {
      spec: {
        policyName: 'p',
        validationActions: ['Deny'],
        matchResources: { objectSelector: { matchLabels: { strict: 'yes' } } },
      },
    })
    expect((await tryItem({})).status).toBe(201)
    await items.clear()
    expect((await tryItem({}, { labels: { strict: 'yes' } })).status).toBe(422)
  })

  it('warns and annotates instead of refusing, as the binding says', async () => {
    const actions = { validationActions: ['Warn', 'Audit'] }
    await bindPolicy(
      world.api,
      'p',
      rule,
      { validations: [{ expression: 'false', message: 'so so' }] },
      actions,
    )
    const answer = await tryItem({})
    expect(answer.status).toBe(201)
    expect(warningsOf(answer)).toEqual([
      "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': so so",
    ])
  })

  it('shows the write in its variables', async () => {
    const validations = [
      "request.operation == 'CREATE' ? oldObject == null : oldObject.metadata.name == 'a'",
      "request.operation == 'DELETE' ? object == null : object.spec.count >= 0",
      "request.kind.kind == 'Item' && request.resource.resource == 'items' && request.resource.version == 'v1'",
      "request.userInfo.username != '' && 'setpoint:admins' in request.userInfo.groups",
      "request.name == 'a' && !has(request.namespace) && !request.dryRun",
      "request.options.kind in ['CreateOptions', 'UpdateOptions', 'DeleteOptions']",
      'namespaceObject == null',
      'variables.sum == 3 && variables.twice == 6',
      "authorizer.group('items.example.com').resource('items').check('delete').allowed()",
      "authorizer.requestResource.check('custom').allowed()",
      "!authorizer.serviceAccount('default', 'nobody').group('').resource('secrets').check('get').allowed()",
    ].map(expression => ({ expression }))
    const variables = [
      { name: 'sum', expression: '[1, 2].sum()' },
      { name: 'twice', expression: 'variables.sum * 2' },
      { name: 'broken', expression: 'object.none.none' },
    ]
    await bindPolicy(world.api, 'p', everyRule('items.example.com', 'items'), { variables, validations })
    const created = await tryItem({ count: 1 })
    expect(created.text).not.toContain('denied')
    const replaced = await world.api.put(items.at('a'), items.body('a', { count: 2 }))
    expect(replaced.text).not.toContain('denied')
    const deleted = await world.api.delete(items.at('a'))
    expect(deleted.text).not.toContain('denied')
    expect([created.status, replaced.status, deleted.status]).toEqual([201, 200, 200])
  })

  it('sees the namespace of an object, and selects by its labels', async () => {
    await world.api.post('/api/v1/namespaces', { metadata: { name: 'prod', labels: { env: 'prod' } } })
    const constraints = {
      resourceRules: [{ ...ruleFor('places.example.com', 'places'), scope: 'Namespaced' }],
      namespaceSelector: { matchExpressions: [{ key: 'env', operator: 'In', values: ['prod'] }] },
    }
    const expression =
      'namespaceObject.metadata.name == request.namespace && object.spec.n == namespaceObject.metadata.labels.env'
    await bindPolicy(world.api, 'p', {}, { matchConstraints: constraints, validations: [{ expression }] })
    const tryPlace = async (namespace: string, n: string) => {
      const places = placesIn(world.api, namespace)
      return (await world.api.post(places.path, places.body(`x-${n}`, { n }))).status
    }
    expect(await tryPlace('prod', 'prod')).toBe(201)
    expect(await tryPlace('prod', 'test')).toBe(422)
    expect(await tryPlace('default', 'test')).toBe(201)
  })

  it('is parameterized by objects of any kind, by name or by selector', async () => {
    const configMap = (name: string, max: string) => ({
      metadata: { name, labels: { limits: 'yes' } },
      data: { max },
    })
    const maps = '/api/v1/namespaces/default/configmaps'
    await world.api.post(maps, configMap('small', '3'))
    const spec = {
      paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
      validations: [
        {
          expression: 'object.spec.count <= int(params.data.max)',
          messageExpression: "'at most ' + params.data.max",
        },
      ],
    }
    const byName = { name: 'small', namespace: 'default', parameterNotFoundAction: 'Deny' }
    await bindPolicy(world.api, 'p', rule, spec, { paramRef: byName })
    expect((await tryItem({ count: 3 })).status).toBe(201)
    await items.clear()
    expect((await tryItem({ count: 4 })).text).toContain('denied request: at most 3')
    await world.api.delete(`${maps}/small`)
    expect((await tryItem({ count: 1 })).text).toContain(
      'failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction',
    )
    await unconfigure(world.api)
    await world.api.post(maps, configMap('one', '9'))
    await world.api.post(maps, configMap('two', '5'))
    const selector = { matchLabels: { limits: 'yes' } }
    const paramRef = { selector, namespace: 'default', parameterNotFoundAction: 'Allow' }
    await bindPolicy(world.api, 'p', rule, spec, { paramRef })
    expect((await tryItem({ count: 6 })).text).toContain('denied request: at most 5')
    await world.api.delete(maps)
    expect((await tryItem({ count: 6 })).status).toBe(201)
  })

  it('refuses a write that it cannot evaluate, unless it ignores failures', async () => {
    const validations = [{ expression: "object.spec.none == 'x'" }]
    await bindPolicy(world.api, 'p', rule, { validations })
    expect((await tryItem({})).text).toContain(
      `expression 'object.spec.none == 'x'' resulted in error: no such key: none`,
    )
    await unconfigure(world.api)
    await bindPolicy(world.api, 'p', rule, { validations, failurePolicy: 'Ignore' })
    expect((await tryItem({})).status).toBe(201)
  })

  it('ends an evaluation that takes too many steps, and the server goes on', async () => {
    const many = '[0,1,2,3,4,5,6,7,8,9]'
    const nested = Array(8)
      .fill(0)
      .reduce(text => `${many}.all(x, ${text})`, 'true')
    await bindPolicy(world.api, 'p', rule, { validations: [{ expression: nested }] })
    expect((await tryItem({})).text).toContain('running out of cost budget')
    expect((await world.api.get(items.path)).status).toBe(200)
  })

  it('is asked only if its match conditions hold', async () => {
    const matchConditions = [{ name: 'big', expression: 'object.spec.count > 10' }]
    await bindPolicy(world.api, 'p', rule, { matchConditions, validations: [{ expression: 'false' }] })
    expect((await tryItem({ count: 1 })).status).toBe(201)
    await items.clear()
    expect((await tryItem({ count: 11 })).status).toBe(422)
    expect((await tryItem({})).text).toContain('no such key: count')
  })

  it('matches the status only where a rule names it', async () => {
    const devices = devicesOf(world.api)
    await devices.create('d', { size: 1 })
    const status = () => world.api.mergePatch(`${devices.at('d')}/status`, { status: { phase: 'Up' } })
    const denying = { validations: [{ expression: 'false' }] }
    await bindPolicy(world.api, 'p', ruleFor('items.example.com', 'devices'), denying)
    expect((await status()).status).toBe(200)
    await bindPolicy(world.api, 'q', ruleFor('items.example.com', 'devices/status'), denying)
    expect(
      (await world.api.mergePatch(`${devices.at('d')}/status`, { status: { phase: 'Down' } })).status,
    ).toBe(422)
  })

  it('holds for dry runs, deletions of collections and applies', async () => {
    await items.create('a', { count: 1 })
    await bindPolicy(world.api, 'p', everyRule('*', '*'), { validations: [{ expression: 'false' }] })
    const apply = (name: string) =>
      world.api.request(
        'PATCH',
        `${items.at(name)}?fieldManager=m&force=true`,
        items.body(name, { count: 2 }),
        {
          type: 'application/apply-patch+yaml',
        },
      )
    const refused = await Promise.all([
      world.api.post(`${items.path}?dryRun=All`, items.body('b', {})),
      world.api.delete(items.path),
      apply('a'),
      apply('c'),
    ])
    expect(refused.map(({ status }) => status)).toEqual([422, 422, 422, 422])
    expect((await items.list()).names).toEqual(['a'])
  })

  it('does not keep finalizers from being taken away, nor the configuration from being changed', async () => {
    const finalizers = ['example.com/x']
    await items.create('a', {}, { finalizers })
    await world.api.delete(items.at('a'))
    await bindPolicy(world.api, 'p', everyRule('*', '*'), { validations: [{ expression: 'false' }] })
    const patch = { metadata: { finalizers: null } }
    expect((await world.api.mergePatch(items.at('a'), patch)).status).toBe(200)
    expect((await world.api.get(items.at('a'))).status).toBe(404)
    expect((await tryItem({})).status).toBe(422)
    await unconfigure(world.api)
    expect((await tryItem({})).status).toBe(201)
  })
})
