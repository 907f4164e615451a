import type { Budget } from './budget.ts'
import type { CelType } from './types.ts'
import type { CelValue } from './values.ts'

/** The variables of one evaluation, by slot. */
export interface Frame {
  readonly slots: CelValue[]
  readonly budget: Budget
}

/** A compiled expression or a part of one. */
export interface Compiled {
  readonly type: CelType
  readonly run: (frame: Frame) => CelValue
}
