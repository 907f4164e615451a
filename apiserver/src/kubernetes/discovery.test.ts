import { defineModel } from '@setpoint/controller-runtime'
import { describe, expect, it } from 'vitest'
import { ModelRegistry } from '../model/model-registry.ts'
import { ServedModel } from '../model/served-model.ts'
import { Discovery, type DiscoveryDocument } from './discovery.ts'

function kindOf(group: string, kind: string): ServedModel {
  const singular = kind.toLowerCase()
  const schema = { spec: { type: 'object' } } as const
  return new ServedModel(
    defineModel({ group, version: 'v1', kind, singular, plural: `${singular}s`, schema }),
  )
}

const parse = (document: DiscoveryDocument | undefined) => JSON.parse(document?.body.toString() ?? 'null')

describe('the documents of discovery', () => {
  it('are encoded once, until a kind or route comes or goes', () => {
    const models = new ModelRegistry()
    const routes = { changes: 0, described: 0, describe: () => [] }
    const discovery = new Discovery({ models, routes })
    models.add(kindOf('demo.example.com', 'Gadget'))
    const documents = () => [
      discovery.groups('apis'),
      discovery.aggregated('apis', 'v2'),
      discovery.group('demo.example.com'),
      discovery.resources('apis', 'demo.example.com', 'v1'),
    ]
    const first = documents()
    for (const [at, document] of documents().entries()) expect(document).toBe(first[at])
    const other = kindOf('other.example.com', 'Part')
    models.add(other)
    expect(parse(discovery.groups('apis')).groups).toHaveLength(2)
    expect(discovery.group('other.example.com')).toBeDefined()
    models.remove(other)
    expect(discovery.group('other.example.com')).toBeUndefined()
    expect(documents().map(document => document?.etag)).toEqual(first.map(document => document?.etag))
    const before = discovery.groups('apis')
    routes.changes++
    expect(discovery.groups('apis')).not.toBe(before)
  })

  it("have Kubernetes' own groups first, and the core group below /api", () => {
    const models = new ModelRegistry()
    const discovery = new Discovery({ models, routes: { changes: 0, describe: () => [] } })
    expect(discovery.groups('api')).toBeUndefined()
    expect(discovery.aggregated('api', 'v2')).toBeUndefined()
    for (const [group, kind] of [
      ['demo.example.com', 'Lease'],
      ['', 'Namespace'],
      ['coordination.k8s.io', 'Lease'],
    ] as const)
      models.add(kindOf(group, kind))
    const names = (document: DiscoveryDocument | undefined) =>
      parse(document).items.map((item: { metadata: { name: string } }) => item.metadata.name)
    expect(names(discovery.aggregated('apis', 'v2'))).toEqual(['coordination.k8s.io', 'demo.example.com'])
    expect(names(discovery.aggregated('api', 'v2'))).toEqual([''])
    expect(parse(discovery.groups('api'))).toMatchObject({ kind: 'APIVersions', versions: ['v1'] })
    expect(parse(discovery.resources('api', '', 'v1'))).toMatchObject({
      groupVersion: 'v1',
      resources: [{ name: 'namespaces' }],
    })
  })
})
