import { defineModel } from '@setpoint/controller-runtime'
import { describe, expect, it } from 'vitest'
import { ServedModel } from '../model/index.ts'
import { asWatch, readRequestInfo } from './request-info.ts'
import { classOf } from './request-seat.ts'

const schema = { spec: { type: 'object' } } as const
const names = { version: 'v1', scope: 'Namespaced' } as const
const kinds = [
  defineModel({
    ...names,
    group: 'g.example.com',
    kind: 'Thing',
    singular: 'thing',
    plural: 'things',
    schema,
  }),
  defineModel({
    ...{ ...names, group: 'g.example.com', kind: 'Vault', singular: 'vault', plural: 'vaults', schema },
    sensitive: true,
  }),
].map(model => new ServedModel(model))

function read(request: string) {
  const [method = '', target = ''] = request.split(' ')
  const [path = '', query = ''] = target.split('?')
  const modelOf = ({ group, plural }: { group: string; plural: string }) =>
    kinds.find(({ model }) => model.group === group && model.plural === plural)
  return readRequestInfo(method, path, query, { modelOf, isStarting: () => false })
}

const things = '/apis/g.example.com/v1/namespaces/n/things'

describe('a request for objects', () => {
  it.each([
    ['GET', '', 'list', 'lists'],
    ['HEAD', '', 'list', 'lists'],
    ['POST', '', 'create', 'writes'],
    ['DELETE', '', 'deletecollection', 'writes'],
    ['GET', '/a', 'get', 'reads'],
    ['PUT', '/a', 'update', 'writes'],
    ['PATCH', '/a', 'patch', 'writes'],
    ['DELETE', '/a', 'delete', 'writes'],
    ['OPTIONS', '', 'options', 'writes'],
    ['TRACE', '/a', 'trace', 'writes'],
    ['GET', '?watch=true', 'watch', 'watches'],
    ['GET', '/a?watch', 'watch', 'watches'],
    ['GET', '?watch=malformed', 'watch', 'watches'],
    ['GET', '?watch=0', 'list', 'lists'],
    ['GET', '?watch=False', 'list', 'lists'],
    ['POST', '?watch=true', 'create', 'writes'],
  ])('%s %s is %s', (method, rest, verb, requestClass) => {
    const info = read(`${method} ${things}${rest}`)
    expect(info.verb).toBe(verb)
    expect(classOf(info)).toBe(requestClass)
    expect(asWatch(info)).toMatchObject({ verb: 'watch', target: info.target })
  })

  it.each([
    ['?fieldSelector=metadata.name%3Da', 'a'],
    ['?watch=1&fieldSelector=x%3D1,metadata.name==a', 'a'],
    ['?fieldSelector=metadata.name!%3Da', undefined],
    ['?fieldSelector=x%3D%5C,metadata.name%3Da', undefined],
  ])('with the query %s is about the name %s', (query, name) => {
    const info = read(`GET ${things}${query}`)
    expect(info.target).toMatchObject({ plural: 'things', namespace: 'n', name })
    expect(info.served && info.path.name).toBeUndefined()
  })

  it('of a sensitive kind is sensitive', () => {
    expect(read(`GET ${things}`).isSensitive).toBe(false)
    expect(read('GET /apis/g.example.com/v1/vaults').isSensitive).toBe(true)
  })
})

describe('another request', () => {
  it.each([
    ['GET /version', 'get', '/version', 'reads'],
    ['HEAD /metrics', 'get', '/metrics', 'reads'],
    ['OPTIONS /nowhere', 'options', '/nowhere', 'reads'],
    ['GET /apis', 'get', '/apis', 'reads'],
    ['GET /apis/g.example.com/v1', 'get', '/apis/g.example.com/v1', 'reads'],
    ['POST /apis/g.example.com/v1/', 'post', '/apis/g.example.com/v1/', 'reads'],
  ])('%s has the verb %s and its path', (request, verb, target, requestClass) => {
    const info = read(request)
    expect(info).toMatchObject({ verb, target, served: undefined })
    expect(classOf(info)).toBe(requestClass)
    expect(asWatch(info)).toBe(info)
  })

  it.each([
    ['GET /apis/g.example.com/v1/echoes', 'list', { plural: 'echoes', name: undefined }, 'routes'],
    ['POST /apis/g.example.com/v1/echoes/a', 'create', { plural: 'echoes', name: 'a' }, 'routes'],
    [
      'GET /apis/g.example.com/v1/things/a/status/b',
      'get',
      { plural: 'things', subresource: 'status' },
      'routes',
    ],
    ['GET /apis/g.example.com/v1//a', 'get', { plural: '', name: 'a' }, 'routes'],
    ['OPTIONS /apis/g.example.com/v1/echoes', 'options', { plural: 'echoes' }, 'routes'],
    ['GET /api/v1/pods', 'list', { group: '', plural: 'pods' }, 'reads'],
    ['GET /api/v1/namespaces/n', 'get', { plural: 'namespaces', namespace: 'n', name: 'n' }, 'reads'],
  ])('%s has the verb %s, and its path is that of a resource', (request, verb, target, requestClass) => {
    const info = read(request)
    expect(info).toMatchObject({ verb, target, served: undefined })
    expect(classOf(info)).toBe(requestClass)
  })
})
