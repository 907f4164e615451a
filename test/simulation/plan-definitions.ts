import type { Random } from '../soak/random.ts'
import { definitionOfGears } from './kinds.ts'
import type { Action, Extent, Step } from './plan.ts'

const target = { of: 'definitions', name: definitionOfGears } as const
export const creation: Action = { do: 'create', ...target, spec: {}, color: 'red' }
export const deletion: Action = { do: 'delete', ...target }

/**
 * Returns steps in which clients define gears, change the indexes of the definition, delete it, and mostly create it again at
 * once. Some look whether it is established.
 */
export function definitionSteps(
  random: Random,
  { servers, lengthMs, clients }: Extent & { readonly clients: number },
): Step[] {
  const steps: Step[] = []
  const ask = (at: number, action: Action) =>
    steps.push({ at, client: random.below(clients), server: random.below(servers), action })
  const create = (at: number) => {
    ask(at, creation)
    for (let n = random.below(3); n > 0; n--)
      ask(at + random.below(400), { do: 'get', ...target, stale: false })
  }
  create(random.below(200))
  for (let n = random.below(6); n > 0; n--) {
    const at = random.below(lengthMs)
    if (random.chance(0.4)) ask(at, { do: 'index', ...target, unique: random.pick(['email', 'nothing']) })
    else {
      ask(at, deletion)
      for (let n = random.below(3); n > 0; n--) create(at + random.below(random.pick([60, 1_000, 10_000])))
    }
  }
  return steps
}

/** Lets some requests for gadgets be for gears, and some parts belong to gears. */
export function withGears(random: Random, steps: readonly Step[]): Step[] {
  return steps.map(step => {
    if (!('action' in step) || !('of' in step.action)) return step
    const { action } = step
    if (action.do === 'create' && action.owners !== undefined) {
      const owners = action.owners.map(name => (random.chance(0.5) ? name.replace('g', 'r') : name))
      return { ...step, action: { ...action, owners } }
    }
    if (action.of !== 'gadgets' || random.chance(0.4)) return step
    const name = 'name' in action ? { name: action.name.replace('g', 'r') } : {}
    return { ...step, action: { ...action, of: 'gears', ...name } }
  })
}
