import { defineModel, type Schema } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { ServedModel } from '../model/index.ts'
import { groupDocument } from './group-document.ts'

/** Returns the document of a namespaced kind with a status. */
async function documentOf(
  apiVersion: string,
  spec: Schema = { type: 'object' },
): Promise<Record<string, unknown>> {
  const [version = '', group = ''] = apiVersion.split('/').reverse()
  const declared = defineModel({
    ...{ group, version, kind: 'Thing', singular: 'thing', plural: 'things' },
    schema: { spec },
    subresources: { status: true },
  })
  const served = new ServedModel({ ...declared, apiVersion, scope: 'Namespaced' })
  const kinds = [{ served, version: served.hub }]
  const options = {
    basePath: '',
    formatsOf: () => ({ bodies: ['application/json'], patches: ['application/merge-patch+json'] }),
    patchKeywordsOf: async () => [],
  }
  return JSON.parse((await groupDocument({ name: apiVersion, kinds, routes: [] }, options)).toString())
}

/** Returns `<method> <path> <operationId>` of each operation. */
function operationsOf({ paths }: Record<string, unknown>): string[] {
  return Object.entries(isRecord(paths) ? paths : {}).flatMap(([path, item]) =>
    Object.entries(isRecord(item) ? item : {}).flatMap(([method, operation]) =>
      isRecord(operation) && 'operationId' in operation ? [`${method} ${path} ${operation.operationId}`] : [],
    ),
  )
}

describe('the document of a namespaced kind', () => {
  const below = '/apis/test.example.com/v1/namespaces/{namespace}/things'

  it('has the operations within a namespace, and the list of all', async () => {
    expect(operationsOf(await documentOf('test.example.com/v1'))).toEqual([
      'get /apis/test.example.com/v1/things listTestExampleComV1ThingForAllNamespaces',
      `get ${below} listTestExampleComV1NamespacedThing`,
      `post ${below} createTestExampleComV1NamespacedThing`,
      `delete ${below} deleteTestExampleComV1CollectionNamespacedThing`,
      `get ${below}/{name} readTestExampleComV1NamespacedThing`,
      `put ${below}/{name} replaceTestExampleComV1NamespacedThing`,
      `patch ${below}/{name} patchTestExampleComV1NamespacedThing`,
      `delete ${below}/{name} deleteTestExampleComV1NamespacedThing`,
      `get ${below}/{name}/status readTestExampleComV1NamespacedThingStatus`,
      `put ${below}/{name}/status replaceTestExampleComV1NamespacedThingStatus`,
      `patch ${below}/{name}/status patchTestExampleComV1NamespacedThingStatus`,
    ])
  })

  it('has the namespace as a parameter, in the metadata and in examples', async () => {
    const document = await documentOf('test.example.com/v1')
    const parameter = (name: string) => ({ $ref: `#/components/parameters/${name}` })
    expect(document).toMatchObject({
      paths: {
        [below]: { parameters: [parameter('namespace')] },
        [`${below}/{name}`]: { parameters: [parameter('namespace'), parameter('name')] },
      },
      components: {
        schemas: {
          'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta': {
            properties: { namespace: { type: 'string' } },
          },
        },
        examples: {
          'com.example.test.v1.Thing': { value: { metadata: { name: 'example', namespace: 'default' } } },
        },
      },
    })
  })

  it("has no empty lists of examples and fields, which Kubernetes' types for Go lose", async () => {
    const spec = { type: 'object', properties: { exact: { type: 'string', pattern: '^a$' } } } as const
    const required = { ...spec, required: ['exact'] }
    const document = await documentOf('test.example.com/v1', required)
    expect(document.components).not.toHaveProperty('examples')
    const empty = await documentOf('test.example.com/v1', { type: 'object', properties: {} })
    expect(JSON.stringify(empty)).not.toContain('"properties":{}')
  })

  it('is below /api for the core group', async () => {
    const document = await documentOf('v1')
    expect(operationsOf(document)).toContain(
      'post /api/v1/namespaces/{namespace}/things createCoreV1NamespacedThing',
    )
    expect(document).toMatchObject({
      info: { title: 'v1', version: 'v1' },
      components: {
        schemas: {
          'core.v1.Thing': {
            'x-kubernetes-group-version-kind': [{ group: '', kind: 'Thing', version: 'v1' }],
          },
        },
      },
    })
  })
})
