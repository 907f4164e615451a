/** The kinds of `admissionregistration.k8s.io/v1`, as Kubernetes 1.34 has them. */
import { ServedModel } from '../../../model/index.ts'
import { schemasOf } from '../../go-schemas.ts'
import type { AdmissionKind } from './admission-kind.ts'
import type { ParamAccess } from './param-access.ts'
import { bindingKind, policyKind } from './policy-kinds.ts'
import { mutatingConfiguration, validatingConfiguration } from './webhook-kinds.ts'

export { admissionGroup } from './admission-kind.ts'
export { ParamAccess } from './param-access.ts'

/** The kinds that configure admission. */
export interface AdmissionKinds {
  readonly mutating: ServedModel
  readonly validating: ServedModel
  readonly policies: ServedModel
  readonly bindings: ServedModel
  readonly all: readonly ServedModel[]
}

/** Returns the kinds, not served yet. */
export function admissionKinds(access: ParamAccess): AdmissionKinds {
  const served = ({ model, rules, shape }: AdmissionKind) =>
    new ServedModel(model, undefined, { rules, compile: schemasOf(shape) })
  const kinds = {
    mutating: served(mutatingConfiguration),
    validating: served(validatingConfiguration),
    policies: served(policyKind(access)),
    bindings: served(bindingKind(access)),
  }
  return { ...kinds, all: Object.values(kinds) }
}
