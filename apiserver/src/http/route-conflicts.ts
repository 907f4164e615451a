import { isReservedGroup } from '@setpoint/controller-runtime/api'
import type { Route } from '@setpoint/controller-runtime/internal'
import type { ModelRegistry } from '../model/index.ts'
import { matchesGenerated, overlap, shapeOf, shapesOf } from './route-patterns.ts'

/** A plugin's route that clashes with another route or with the path of a kind, or has no valid pattern. */
export class RouteConflictError extends Error {
  override readonly name = 'RouteConflictError'

  constructor(plugin: string, problem: string, options?: ErrorOptions) {
    super(`plugin ${JSON.stringify(plugin)}: ${problem}`, options)
  }
}

/** A route, or the path of an action. */
export interface CheckedRoute extends Pick<Route, 'method' | 'pattern'> {
  /** `<plural>/<name>`, if it is an action. */
  readonly action?: string
}

/** The routes of a plugin in one group version. */
export interface PluginRoutes {
  readonly plugin: string
  readonly group: { readonly groupVersion: string; readonly routes: readonly CheckedRoute[] }
}

interface Surroundings {
  readonly models: ModelRegistry
  readonly reservedDomain: string
  /** The routes that are mounted already, also of the same plugin. */
  readonly others: readonly PluginRoutes[]
}

/** @throws RouteConflictError for the first route that cannot be served, naming what it clashes with */
export function checkRoutes(own: PluginRoutes, { models, reservedDomain, others }: Surroundings): void {
  checkGroup(own, reservedDomain)
  checkKinds(own, models)
  for (const other of others) checkOverlap(own, other)
  checkRepetition(own)
}

/** Returns a route as messages name it. */
export function titleOf({ method, pattern, action }: CheckedRoute, groupVersion: string): string {
  return action === undefined
    ? `route ${method} ${pattern} in ${groupVersion}`
    : `action ${action} in ${groupVersion}`
}

function checkGroup({ plugin, group: { groupVersion, routes } }: PluginRoutes, reservedDomain: string): void {
  const [group = ''] = groupVersion.split('/')
  if (isReservedGroup(group, reservedDomain))
    throw new RouteConflictError(
      plugin,
      `the group of its routes, ${JSON.stringify(group)}, is reserved for the service; use a sub-domain of your own`,
    )
  const root = routes.find(({ pattern }) => shapesOf(pattern).some(shape => shape.length === 0))
  if (root !== undefined)
    throw new RouteConflictError(
      plugin,
      `its ${titleOf(root, groupVersion)} would serve /apis/${groupVersion}/, which is a path of discovery that every authenticated caller may get; give it a segment, such as /summary`,
    )
  const reserved = routes.find(
    ({ pattern, action }) => action === undefined && shapeOf(pattern)[0] === 'namespaces',
  )
  if (reserved !== undefined)
    throw new RouteConflictError(
      plugin,
      `its ${titleOf(reserved, groupVersion)} begins with namespaces, which is reserved for kinds: put another segment first, or declare an action of the kind`,
    )
}

function checkKinds({ plugin, group: { groupVersion, routes } }: PluginRoutes, models: ModelRegistry): void {
  const [group, version] = groupVersion.split('/')
  for (const { model, versions, plugin: owner } of models.all()) {
    if (!versions.some(each => each.group === group && each.name === version)) continue
    const route = routes.find(({ pattern }) => matchesGenerated(pattern, model))
    if (route === undefined) continue
    const whose = owner === undefined ? 'the server' : `plugin ${JSON.stringify(owner)}`
    throw new RouteConflictError(
      plugin,
      `its ${titleOf(route, groupVersion)} would shadow the generated paths of ${model.kind} (${whose})`,
    )
  }
}

function checkOverlap({ plugin, group }: PluginRoutes, other: PluginRoutes): void {
  if (other.group.groupVersion !== group.groupVersion) return
  for (const route of group.routes) {
    // Requests of all methods for the path of an action go to it.
    const clash = other.group.routes.find(
      theirs =>
        (theirs.method === route.method || theirs.action !== undefined || route.action !== undefined) &&
        overlap(theirs.pattern, route.pattern),
    )
    if (clash === undefined) continue
    const theirs = clash.action === undefined ? clash.pattern : `action ${clash.action}`
    throw new RouteConflictError(
      plugin,
      `its ${titleOf(route, group.groupVersion)} would clash with ${theirs} of plugin ${JSON.stringify(other.plugin)}`,
    )
  }
}

function checkRepetition({ plugin, group: { groupVersion, routes } }: PluginRoutes): void {
  const seen = new Set<string>()
  for (const route of routes) {
    for (const shape of shapesOf(route.pattern)) {
      const id = `${route.method} ${shape.join('/')}`
      if (seen.has(id))
        throw new RouteConflictError(plugin, `the ${titleOf(route, groupVersion)} is declared twice`)
      seen.add(id)
    }
  }
}
