import type { HookViolation } from '@setpoint/controller-runtime/api'
import type { BuiltInKind } from '../../../kubernetes/index.ts'
import type { KindRules } from '../../../model/index.ts'
import type { KindShape } from '../../go-schemas.ts'
import { loadCel } from '../cel-environment.ts'
import { complete } from './shape.ts'

export const admissionGroup = 'admissionregistration.k8s.io'

/** A kind of the group. */
export interface AdmissionKind extends BuiltInKind {
  readonly shape: KindShape
}

/** What the models of the group have in common. */
export const admissionModel = {
  group: admissionGroup,
  version: 'v1',
  names: 'dns-subdomain',
  categories: ['api-extensions'],
} as const

/**
 * Returns what these kinds do as their strategies in Kubernetes.
 * @param inspect returns the violations that the schema cannot find. The engine of CEL is loaded then
 */
export function admissionRules(
  shape: KindShape,
  inspect: (
    ...args: Parameters<NonNullable<KindRules['inspect']>>
  ) => readonly HookViolation[] | Promise<readonly HookViolation[]>,
): KindRules {
  return {
    hasGeneration: true,
    needsVersion: true,
    reportsDuplicates: true,
    takesEffectAtOnce: true,
    created: draft => complete(shape, draft),
    updated: draft => complete(shape, draft),
    async inspect(...args) {
      await loadCel()
      return inspect(...args)
    },
  }
}
