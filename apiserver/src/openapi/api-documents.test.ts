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
    let turns = 0
    let isMade = false
    const count = () => {
      if (isMade) return
      turns++
      setImmediate(count)
    }
    setImmediate(count)
    await documents.document(groupVersion)
    isMade = true
    expect(turns).toBeGreaterThanOrEqual(20)
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
