import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, refusalOf } from './support/api.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

const root = '/apis/authorization.k8s.io/v1'
const selfReviews = `${root}/selfsubjectaccessreviews`
const items = { group: 'items.example.com', resource: 'items' }

describe('reviews, which are not stored', () => {
  let world: SharedWorld
  let users: Users<'ann' | 'vic'>
  let ann: Api
  let vic: Api

  beforeAll(async () => {
    users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
    world = await startSharedWorld('embedded', ['items-plugin'], { args: users.args })
    ann = users.api(world.server.url, 'ann')
    vic = users.api(world.server.url, 'vic')
  })
  afterAll(async () => {
    await world?.end()
    await users?.remove()
  })

  const ask = (api: Api, verb: string, resource: object = items) =>
    api.post(selfReviews, { spec: { resourceAttributes: { verb, ...resource } } })

  it('respond with 201, the object as it was sent, and a status', async () => {
    const spec = { resourceAttributes: { verb: 'create', ...items } }
    const { status, body, headers } = await ann.post(selfReviews, {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      metadata: { creationTimestamp: null, namespace: 'ignored', uid: 'ignored' },
      spec,
      status: { allowed: false },
    })
    expect([status, headers.get('location')]).toEqual([201, null])
    expect(body).toEqual({
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      metadata: {},
      spec,
      status: { allowed: true, reason: 'allowed by the built-in group "setpoint:admins"' },
    })
  })

  it('need no apiVersion and kind, and refuse others', async () => {
    expect((await ask(ann, 'list')).status).toBe(201)
    const other = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec: {} }
    refusalOf(await ann.post(selfReviews, other), 400)
  })

  it('take YAML', async () => {
    const yaml = 'spec: {nonResourceAttributes: {path: /metrics, verb: get}}'
    const { status, body } = await ann.post(selfReviews, yaml, { type: 'application/yaml' })
    expect([status, body]).toEqual([
      201,
      expect.objectContaining({ status: expect.objectContaining({ allowed: true }) }),
    ])
  })

  it('are authorized as any kind', async () => {
    const others = await vic.post(`${root}/subjectaccessreviews`, {
      spec: { user: 'ann', resourceAttributes: { verb: 'list', ...items } },
    })
    expect(refusalOf(others, 403).message).toBe(
      'subjectaccessreviews.authorization.k8s.io is forbidden: User "vic" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope',
    )
    // The role system:basic-user lets every caller ask about itself.
    expect((await ask(vic, 'list')).status).toBe(201)
  })

  it('are refused with all violations of their schema', async () => {
    const { code, causes } = refusalOf(
      await ann.post(selfReviews, { spec: { resourceAttributes: { verb: 1, resource: [] } } }),
      422,
    )
    expect([code, causes.map(({ field }) => field).sort()]).toEqual([
      422,
      ['spec.resourceAttributes.resource', 'spec.resourceAttributes.verb'],
    ])
    refusalOf(await ann.post(selfReviews, { spec: {} }), 422)
    refusalOf(await ann.post(selfReviews, 'nonsense'), 400)
  })

  it('are refused with all violations of their content, whose details have the group only', async () => {
    const both = { resourceAttributes: { verb: 'get' }, nonResourceAttributes: { path: '/x', verb: 'get' } }
    const refused = async (path: string, body: object) => {
      const { causes, details } = refusalOf(await ann.post(`${root}/${path}`, body), 422)
      expect([details.group, details.kind, details.name]).toEqual([
        'authorization.k8s.io',
        undefined,
        undefined,
      ])
      return causes.map(({ field }) => field)
    }
    for (const metadata of [{ name: 'a' }, { generateName: 'a' }, { labels: { a: 'b' } }])
      expect(await refused('selfsubjectaccessreviews', { metadata, spec: both })).toEqual([
        'spec.nonResourceAttributes',
        'metadata',
      ])
    expect(await refused('subjectaccessreviews', { metadata: { name: 'a' }, spec: {} })).toEqual([
      'spec.resourceAttributes',
      'spec.user',
      'metadata',
    ])
    const local = 'namespaces/default/localsubjectaccessreviews'
    expect(await refused(local, { spec: { user: 'vic', ...both } })).toEqual([
      'spec.nonResourceAttributes',
      'spec.resourceAttributes.namespace',
      'spec.nonResourceAttributes',
    ])
    refusalOf(await ann.post(`${root}/${local}`, { metadata: { namespace: 'other' }, spec: {} }), 400)
  })

  it('treat unknown fields as every write', async () => {
    const body = { spec: { resourceAttributes: { verb: 'get', ...items }, wrong: 1 } }
    expect((await ann.post(selfReviews, body)).headers.get('warning')).toContain('spec.wrong')
    refusalOf(await ann.post(`${selfReviews}?fieldValidation=Strict`, body), 400)
  })

  it.each(['GET', 'PUT', 'PATCH', 'DELETE'])('refuse %s', async method => {
    const answer = await ann.request(method, selfReviews)
    refusalOf(answer, 405)
    expect(answer.headers.get('allow')).toBe('POST')
  })

  it('are not watched, and have no names', async () => {
    refusalOf(await ann.get(`${selfReviews}?watch=true`), 405)
    refusalOf(await ann.get(`${selfReviews}/a`), 404)
    refusalOf(await ann.post(`${root}/localsubjectaccessreviews`, { spec: {} }), 404)
    refusalOf(await ann.post(`${root}/namespaces/default/selfsubjectaccessreviews`, { spec: {} }), 404)
  })

  it('are in discovery and in the API documents', async () => {
    const { body } = await ann.get(root)
    expect(body).toMatchObject({
      groupVersion: 'authorization.k8s.io/v1',
      resources: [
        { name: 'selfsubjectaccessreviews', kind: 'SelfSubjectAccessReview', namespaced: false },
        { name: 'subjectaccessreviews', kind: 'SubjectAccessReview', verbs: ['create'] },
        { name: 'localsubjectaccessreviews', namespaced: true, verbs: ['create'] },
        { name: 'selfsubjectrulesreviews', kind: 'SelfSubjectRulesReview', verbs: ['create'] },
      ],
    })
    const document = await ann.get(`/openapi/v3${root}`)
    expect(document.body).toMatchObject({
      paths: {
        [`${root}/selfsubjectaccessreviews`]: { post: { 'x-kubernetes-action': 'post' } },
        [`${root}/namespaces/{namespace}/localsubjectaccessreviews`]: { post: {} },
      },
    })
  })

  it('decide for another user', async () => {
    const review = (api: Api, path: string, spec: object) => api.post(`${root}/${path}`, { spec })
    const resourceAttributes = { verb: 'list', ...items }
    const asked = await review(ann, 'subjectaccessreviews', { user: 'vic', resourceAttributes })
    expect(asked.body).toMatchObject({ status: { allowed: false } })
    const inGroup = { user: 'vic', groups: ['setpoint:viewers'], resourceAttributes }
    const grouped = await review(ann, 'subjectaccessreviews', inGroup)
    expect(grouped.body).toMatchObject({ status: { allowed: true } })
    refusalOf(await review(ann, 'subjectaccessreviews', { resourceAttributes }), 422)
    const local = 'namespaces/default/localsubjectaccessreviews'
    refusalOf(await review(ann, local, inGroup), 422)
    const inDefault = { ...inGroup, resourceAttributes: { ...resourceAttributes, namespace: 'default' } }
    expect((await review(ann, local, inDefault)).body).toMatchObject({ status: { allowed: true } })
  })

  it('list the rules of the caller', async () => {
    const path = `${root}/selfsubjectrulesreviews`
    const { body } = await ann.post(path, { spec: { namespace: 'default' } })
    expect(body).toMatchObject({
      status: {
        resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }],
        nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }],
        incomplete: false,
      },
    })
    refusalOf(await ann.post(path, { spec: {} }), 400)
  })
})
