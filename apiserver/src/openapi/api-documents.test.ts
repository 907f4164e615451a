import { defineModel, type Schema } from '@setpoint/controller-runtime'
import { describe, expect, it } from 'vitest'
import { ModelRegistry, ServedModel } from '../model/index.ts'
import { ApiDocuments } from './api-documents.ts'
import type { DescribedRoute } from './route-paths.ts'

const model = (name: string, spec: Schema = { type: 'object' }) =>
  defineModel({
    group: 'test.example.com',
    version: 'v1',
    kind: name,
    singular: name.toLowerCase(),
    plural: `${name.toLowerCase()}s`,
    schema: { spec },
  })

function optionsWith(...patches: string[]) {
  return {
    basePath: '',
    formatsOf: () => ({ bodies: ['application/json'], patches }),
    patchKeywordsOf: async () => [],
  }
}

function setUp(...names: string[]) {
  const models = new ModelRegistry()
  for (const name of names) models.add(new ServedModel(model(name)))
  const routes: DescribedRoute[] = []
  const documents = new ApiDocuments({
    models,
    routes: { describe: () => routes },
    ...optionsWith('application/merge-patch+json'),
  })
  return { models, routes, documents }
}

/** Returns how often other work gets its turn before a document is made. */
async function turnsOf(document: Promise<unknown>): Promise<number> {
  let turns = 0
  let isMade = false
  const count = () => {
    if (isMade) return
    turns++
    setImmediate(count)
  }
  setImmediate(count)
  await document
  isMade = true
  return turns
}

const groupVersion = 'test.example.com/v1'
const route: DescribedRoute = {
  plugin: 'test',
  groupVersion,
  method: 'GET',
  pattern: '/things/:name/summary',
  summary: undefined,
}

describe('a document', () => {
  it('is made once for all requests until its models change', async () => {
    const { models, documents } = setUp('Thing')
    const [first, second] = await Promise.all([
      documents.document(groupVersion),
      documents.document(groupVersion),
    ])
    expect(second).toBe(first)
    const other = defineModel({ ...model('Other'), group: 'other.example.com' })
    models.add(new ServedModel(other))
    expect(await documents.document(groupVersion)).toBe(first)
    const added = new ServedModel(model('Added'))
    models.add(added)
    const changed = await documents.document(groupVersion)
    expect(changed?.hash).not.toBe(first?.hash)
    models.remove(added)
    expect((await documents.document(groupVersion))?.hash).toBe(first?.hash)
  })

  it('is made again when a model is replaced, as by a reload', async () => {
    const { models, documents } = setUp('Thing')
    const before = await documents.document(groupVersion)
    for (const served of [...models.all()]) models.remove(served)
    models.add(new ServedModel(model('Thing', { type: 'object', description: 'Reloaded.' })))
    const after = await documents.document(groupVersion)
    expect(after?.bytes.toString()).toContain('Reloaded.')
    expect(after?.hash).not.toBe(before?.hash)
  })

  it('follows the routes of its group version', async () => {
    const { routes, documents } = setUp('Thing')
    const before = await documents.document(groupVersion)
    routes.push(route)
    expect((await documents.document(groupVersion))?.bytes.toString()).toContain('/summary')
    routes.pop()
    expect((await documents.document(groupVersion))?.hash).toBe(before?.hash)
  })

  it('does not depend on the order in which plugins start', async () => {
    const [one, other] = [setUp('Thing', 'Added'), setUp('Added', 'Thing')]
    const second = { ...route, pattern: '/things/:thing/details' }
    one.routes.push(route, second)
    other.routes.push(second, route)
    const hashes = await Promise.all(
      [one, other].map(async ({ documents }) => (await documents.document(groupVersion))?.hash),
    )
    expect(hashes[0]).toBe(hashes[1])
  })

  it('yields to other work between kinds', async () => {
    const { documents } = setUp(...Array.from({ length: 20 }, (_, at) => `Thing${at}`))
    expect(await turnsOf(documents.document(groupVersion))).toBeGreaterThanOrEqual(20)
  })

  it('is undefined where nothing is served', async () => {
    expect(await setUp('Thing').documents.document('test.example.com/v2')).toBeUndefined()
  })

  it('describes server-side apply where patches of its type are served', async () => {
    const models = new ModelRegistry()
    models.add(new ServedModel(model('Thing')))
    const textWith = async (...patchTypes: string[]) => {
      const parts = { models, routes: { describe: () => [] }, ...optionsWith(...patchTypes) }
      return (await new ApiDocuments(parts).document(groupVersion))?.bytes.toString()
    }
    const without = await textWith('application/merge-patch+json')
    const having = await textWith('application/merge-patch+json', 'application/apply-patch+yaml')
    for (const part of [
      '"fieldManager"',
      '"force"',
      '"managedFields"',
      'ManagedFieldsEntry',
      'apply-patch',
    ]) {
      expect(without).not.toContain(part)
      expect(having).toContain(part)
    }
  })
})

describe('the Swagger document', () => {
  it('is made once in each form until a model or a route changes', async () => {
    const { models, routes, documents } = setUp('Thing')
    const [first, second] = await Promise.all([documents.swagger('json'), documents.swagger('json')])
    expect(second).toBe(first)
    const protobuf = await documents.swagger('protobuf')
    expect(await documents.swagger('protobuf')).toBe(protobuf)
    expect(protobuf.hash).not.toBe(first.hash)
    const other = new ServedModel(defineModel({ ...model('Other'), group: 'other.example.com' }))
    models.add(other)
    const added = await documents.swagger('json')
    expect(added.bytes.toString()).toContain('/apis/other.example.com/v1/others')
    expect((await documents.swagger('protobuf')).hash).not.toBe(protobuf.hash)
    models.remove(other)
    routes.push(route)
    expect((await documents.swagger('json')).bytes.toString()).toContain('/things/{name}/summary')
    routes.pop()
    expect((await documents.swagger('json')).hash).toBe(first.hash)
  })

  it('has the options of a deletion in each group version that has kinds', async () => {
    const { models, routes, documents } = setUp('Thing')
    models.add(new ServedModel(defineModel({ ...model('Other'), group: 'other.example.com' })))
    routes.push({ ...route, groupVersion: 'api.test.example.com/v2' })
    const { definitions } = JSON.parse((await documents.swagger('json')).bytes.toString())
    const kind = 'DeleteOptions'
    expect(
      definitions['io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions']['x-kubernetes-group-version-kind'],
    ).toEqual([
      { group: '', version: 'v1', kind },
      { group: 'other.example.com', version: 'v1', kind },
      { group: 'test.example.com', version: 'v1', kind },
    ])
  })

  it.each(['json', 'protobuf'] as const)('yields to other work between kinds, as %s', async form => {
    const { documents } = setUp(...Array.from({ length: 20 }, (_, at) => `Thing${at}`))
    expect(await turnsOf(documents.swagger(form))).toBeGreaterThanOrEqual(20)
  })
})

describe('the index', () => {
  it('has each document with its hash', async () => {
    const { routes, documents } = setUp('Thing')
    routes.push({ ...route, groupVersion: 'api.test.example.com/v2' })
    const index = JSON.parse((await documents.index()).bytes.toString())
    const hashOf = async (name: string) => (await documents.document(name))?.hash
    expect(index).toEqual({
      paths: {
        'apis/test.example.com/v1': {
          serverRelativeURL: `/openapi/v3/apis/test.example.com/v1?hash=${await hashOf(groupVersion)}`,
        },
        'apis/api.test.example.com/v2': {
          serverRelativeURL: `/openapi/v3/apis/api.test.example.com/v2?hash=${await hashOf('api.test.example.com/v2')}`,
        },
      },
    })
  })
})
