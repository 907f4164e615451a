import { defineModel, definePlugin, type Transport, TransportError } from '@setpoint/controller-runtime'
import { type HostedPlugin, setupPlugin } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { routeResources } from '../kubernetes/route-resources.ts'
import { ModelRegistry } from '../model/index.ts'
import { CustomRoutes } from './custom-routes.ts'
import { RouteCallers } from './route-callers.ts'

const transport: Transport = {
  request: () => Promise.reject(new TransportError('no server')),
  watch: () => Promise.reject(new TransportError('no server')),
}

async function mounted(
  name: string,
  groupVersion: string,
  ...patterns: string[]
): Promise<{ routes: CustomRoutes; hosted: HostedPlugin }> {
  const plugin = definePlugin({
    name,
    setup(context) {
      context.routes(groupVersion, routes => {
        for (const pattern of patterns) routes.get(pattern, () => undefined, { summary: `Shows ${pattern}.` })
      })
    },
  })
  const routes = new CustomRoutes(new ModelRegistry(), 'setpoint.dev', new RouteCallers())
  const hosted = await setupPlugin(plugin, { transport })
  routes.add(hosted)
  return { routes, hosted }
}

it('routes are described with method, path and summary until their plugin is removed', async () => {
  const { routes, hosted } = await mounted('pages', 'api.pages.example.com/v1', '/pages/:name/summary')
  expect(routes.describe()).toEqual([
    {
      plugin: 'pages',
      groupVersion: 'api.pages.example.com/v1',
      method: 'GET',
      pattern: '/pages/:name/summary',
      summary: 'Shows /pages/:name/summary.',
    },
  ])
  routes.remove(hosted)
  expect(routes.describe()).toEqual([])
})

it('the resources of routes are named as Kubernetes reads their paths', async () => {
  const groupVersion = 'api.pages.example.com/v1'
  const { routes } = await mounted(
    ...(['pages', groupVersion, '/report', '/pages/:name', '/pages/:name/summary'] as const),
    ...[
      '/pages/:name/summary/:line',
      '/pages/:name/:part',
      '/teams/all/pages',
      '/news{/:day}',
      '/:anything/:name',
    ],
  )
  const names = routeResources(routes.describe(), groupVersion).map(resource => JSON.stringify(resource))
  const entry = (name: string, ...verbs: string[]) =>
    JSON.stringify({ name, singularName: '', namespaced: false, kind: '', verbs })
  expect(names).toEqual([
    entry('report'),
    entry('pages'),
    entry('pages/summary', 'get'),
    entry('pages/*', 'get'),
    entry('teams/pages', 'get'),
    entry('news'),
    entry('*'),
  ])
  expect(routeResources(routes.describe(), 'api.pages.example.com/v2')).toEqual([])
})

it.each(['/', '//', '/{:name}', '/{a/b}'])(
  'the route %s is refused, because its path can be that of discovery',
  async pattern => {
    await expect(mounted('pages', 'api.pages.example.com/v1', pattern)).rejects.toThrow(
      `its route GET ${pattern} in api.pages.example.com/v1 would serve /apis/api.pages.example.com/v1/`,
    )
  },
)

it.each([
  ['/namespaces/mine', 'begins with namespaces, which is reserved'],
  ['/:any/:thing/seats/:name', undefined],
  ['/:any/seats', undefined],
])('the route %s is checked against the paths of namespaces', async (pattern, refused) => {
  const groupVersion = 'api.seats.example.com/v1'
  const mounting = mounted('seats', groupVersion, pattern)
  if (refused !== undefined) {
    await expect(mounting).rejects.toThrow(refused)
    return
  }
  const { routes } = await mounting
  const seat = (scope: 'Cluster' | 'Namespaced') =>
    defineModel({
      ...{ group: 'api.seats.example.com', version: 'v1', kind: 'Seat', singular: 'seat', plural: 'seats' },
      scope,
      schema: { spec: {} },
    })
  const clash = pattern === '/:any/seats' ? expect.stringContaining(pattern) : undefined
  expect(routes.clashWith(groupVersion, seat('Cluster'))).toEqual(clash)
  expect(routes.clashWith(groupVersion, seat('Namespaced'))).toEqual(expect.stringContaining(pattern))
})

it.each([
  ['/files/*path', '/files/a/b', true],
  ['/files/a/b', '/files/*path', true],
  ['/files/*path', '/files/:name', true],
  ['/*path/end', '/a/b/end', true],
  ['/files{/*path}', '/files', true],
  ['/*path/end', '/a/b/other', false],
  ['/files/*path', '/files', false],
  ['/files/*path', '/other/a', false],
])('the routes %s and %s of two plugins clash: %s', async (first, second, clash) => {
  const groupVersion = 'shared.example.com/v1'
  const { routes } = await mounted('first', groupVersion, first)
  const { hosted } = await mounted('second', groupVersion, second)
  const add = () => routes.add(hosted)
  if (clash) expect(add).toThrow(/plugin "second".*clash.*plugin "first"/)
  else expect(add).not.toThrow()
})
