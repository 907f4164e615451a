import { describe, expect, it } from 'vitest'
import { parseResourcePath } from './api-request.ts'

describe('a path', () => {
  it.each([
    ['/apis/g/v1/things', { group: 'g', version: 'v1', plural: 'things' }],
    ['/apis/g/v1/things/', { group: 'g', version: 'v1', plural: 'things' }],
    ['/apis/g/v1/things/a', { group: 'g', version: 'v1', plural: 'things', name: 'a' }],
    ['/apis/g/v1/things/a%2Fb', { group: 'g', version: 'v1', plural: 'things', name: 'a/b' }],
    ['/apis/g/v1/things/a/status', { plural: 'things', name: 'a', subresource: 'status' }],
    ['/apis/g/v1/namespaces/n/things', { namespace: 'n', plural: 'things' }],
    ['/apis/g/v1/namespaces/n/things/a', { namespace: 'n', plural: 'things', name: 'a' }],
    ['/apis/g/v1/namespaces/n/things/a/status', { namespace: 'n', name: 'a', subresource: 'status' }],
    // No kind of a group is called status, but of the core group it is a part of the namespace.
    ['/apis/g/v1/namespaces/n/status', { namespace: 'n', plural: 'status' }],
    ['/api/v1/namespaces', { group: '', version: 'v1', plural: 'namespaces' }],
    ['/api/v1/namespaces/n', { plural: 'namespaces', name: 'n', namespace: undefined }],
    ['/api/v1/namespaces/n/status', { plural: 'namespaces', name: 'n', subresource: 'status' }],
    ['/api/v1/namespaces/n/finalize', { plural: 'namespaces', name: 'n', subresource: 'finalize' }],
    ['/api/v1/namespaces/n/things/a', { group: '', namespace: 'n', plural: 'things', name: 'a' }],
  ])('%s names what it says', (path, parts) => {
    expect(parseResourcePath(path)).toMatchObject({ ...parts, isComplete: true })
  })

  it.each([
    'apis/g/v1/things',
    '/apis',
    '/apis/g',
    '/apis/g/v1',
    '/apis//v1/things',
    '/apis/g//things',
    '/apis/g/v1/things/a/status/deeper',
    '/apis/g/v1/things//',
    '/apis/g/v1/things//status',
    '/apis/g/v1/namespaces/n/things//status',
    '/api/v1/namespaces//status',
    '/apis/g/v1/namespaces/n/things/a/status/deeper',
    // Its key would be that of an object in another namespace.
    '/apis/g/v1/namespaces/n%2Fm/things/a',
    '/api/v1/namespaces/n/serviceaccounts%2Ftoken/a',
    '/apis/g%2Fv1/things/a',
    '/apis/g/v1/things/a/status%2Fb',
    '/api/v1',
    '/api/v1/namespaces/n/status/deeper',
    '/other/v1/things',
  ])('%s names no object', path => {
    expect(parseResourcePath(path)?.isComplete ?? false).toBe(false)
  })

  it.each([
    ['/apis/g/v1/things/a/status/deeper', { plural: 'things', name: 'a', subresource: 'status' }],
    ['/apis/g/v1//a', { group: 'g', plural: '', name: 'a' }],
    ['/apis/g/v1/namespaces//things', { namespace: '', plural: 'things' }],
    ['/apis/g/v1/namespaces/n%2Fm/things/a', { namespace: 'n/m', plural: 'things', name: 'a' }],
    ['/api/v1/name%73paces/n/things', { namespace: 'n', plural: 'things' }],
  ])('%s has the form of a resource, for the rules of roles', (path, parts) => {
    expect(parseResourcePath(path)).toMatchObject(parts)
  })

  it.each([
    '/apis',
    '/apis/',
    '/apis/g/v1',
    '/apis/g/v1/',
    '/api/v1',
    '/api/v1/',
    '/version',
    '//apis/g/v1/things',
    '/%61pis/g/v1/things',
  ])('%s has not', path => {
    expect(parseResourcePath(path)).toBeUndefined()
  })
})
