import type { Metric, Registry } from 'prom-client'

interface Owned {
  readonly owner: string
  readonly metric: Metric<string>
}

/** By registry, then by the name of the metric: its owners. The metric of the last one is in the registry. */
const owners = new WeakMap<Registry, Map<string, Owned[]>>()

/**
 * Puts a metric into a registry. At a reload, the new code of a plugin is set up while the old one still runs: the new
 * metric then replaces the old one, and `releaseMetric` puts the old one back if the new code fails.
 * @returns false if the name belongs to another owner or to the process.
 */
export function claimMetric(
  registry: Registry,
  name: string,
  owner: string,
  metric: Metric<string>,
): boolean {
  const names = owners.get(registry) ?? new Map<string, Owned[]>()
  owners.set(registry, names)
  const stack = names.get(name) ?? []
  const present = stack.at(-1)
  if (present === undefined ? registry.getSingleMetric(name) !== undefined : present.owner !== owner)
    return false
  names.set(name, [...stack, { owner, metric }])
  registry.removeSingleMetric(name)
  registry.registerMetric(metric)
  return true
}

/** Takes a metric out of the registry, unless a later one has replaced it. */
export function releaseMetric(registry: Registry, name: string, metric: Metric<string>): void {
  const names = owners.get(registry)
  const stack = names?.get(name) ?? []
  const others = stack.filter(each => each.metric !== metric)
  if (others.length === 0) names?.delete(name)
  else names?.set(name, others)
  if (stack.at(-1)?.metric !== metric) return
  registry.removeSingleMetric(name)
  const previous = others.at(-1)
  if (previous !== undefined) registry.registerMetric(previous.metric)
}
