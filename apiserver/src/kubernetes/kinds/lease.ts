import type { HookViolation, Model } from '@setpoint/controller-runtime/api'
import { Lease } from '@setpoint/controller-runtime/internal'
import type { BuiltInKind } from './built-in-kind.ts'

const model: Model<Lease> = {
  ...Lease,
  validate({ spec: { strategy, preferredHolder } }): HookViolation[] {
    if (!preferredHolder || strategy) return []
    const message = 'may only be specified if `strategy` is defined'
    return [{ field: 'spec.preferredHolder', reason: 'FieldValueForbidden', message }]
  },
}

/** `Lease` of `coordination.k8s.io/v1`: who may act, and for how long. */
export const lease: BuiltInKind = { model, rules: {} }
