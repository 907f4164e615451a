import type { Model, PluginPermission } from '@setpoint/controller-runtime'
import { nearestName } from '@setpoint/controller-runtime/api'
import type { ReportedProblem } from './index-report.ts'

/**
 * Returns a problem for each resource of a permission that no served kind has, although all groups of the permission
 * have kinds: it is probably misspelled. A group without a kind may be that of a plugin which is not installed.
 *
 * @param kinds the served kinds, when all plugins have registered theirs
 * @param routeGroups groups with routes, whose paths are resources as well
 */
export function unservedResources(
  permissions: readonly PluginPermission[],
  kinds: readonly Pick<Model, 'group' | 'plural'>[],
  routeGroups: ReadonlySet<string>,
): ReportedProblem[] {
  const messages = new Set<string>()
  for (const { apiGroups, resources, verbs } of permissions) {
    // Users and groups are resources without a kind.
    if (verbs.every(verb => verb === 'impersonate')) continue
    const isKnown = (group: string) => !routeGroups.has(group) && kinds.some(kind => kind.group === group)
    if (!apiGroups.every(isKnown)) continue
    const plurals = kinds.filter(({ group }) => apiGroups.includes(group)).map(({ plural }) => plural)
    for (const resource of resources) {
      const [plural = ''] = resource.split('/')
      if (plural === '*' || plurals.includes(plural)) continue
      const nearest = nearestName(plural, plurals)
      const advice = nearest === undefined ? `served are ${plurals.join(', ')}` : `did you mean ${nearest}?`
      const groups = apiGroups.map(group => group || 'core').join('|')
      messages.add(
        `the permission for ${resource} of ${groups} has no effect, because no kind has this plural; ${advice}`,
      )
    }
  }
  return [...messages].map(message => ({ source: 'permissions', message }))
}
