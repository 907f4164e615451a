import { inspect } from 'node:util'
import type { Model } from './model.ts'

/**
 * Refuses what is no model, for callers whose arguments no compiler checks: a kind's name, or arguments in another
 * order.
 * @throws TypeError
 */
export function refuseNonModel(model: Partial<Pick<Model, 'plural'>> | undefined): void {
  if (typeof model?.plural !== 'string')
    throw new TypeError(
      `expected a model, which defineModel returns, but got ${inspect(model, { depth: 0 })}`,
    )
}
