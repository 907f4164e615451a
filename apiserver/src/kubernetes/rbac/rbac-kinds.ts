import { ServedModel } from '../../model/index.ts'
import type { RbacAuthorizer } from '../../security/index.ts'
import type { BuiltInKind } from '../kinds/built-in-kind.ts'
import { bindingKinds } from './binding-kinds.ts'
import { EscalationCheck } from './escalation.ts'
import { roleKinds } from './role-kinds.ts'

/** The kinds of `rbac.authorization.k8s.io/v1`. */
export interface RbacKinds {
  readonly roles: ServedModel
  readonly clusterRoles: ServedModel
  readonly roleBindings: ServedModel
  readonly clusterRoleBindings: ServedModel
  readonly all: readonly ServedModel[]
}

/** Returns the kinds, not served yet. Writers may grant only permissions that they hold. */
export function rbacKinds(authorizer: Pick<RbacAuthorizer, 'allows' | 'checkOf' | 'policy'>): RbacKinds {
  const check = new EscalationCheck(authorizer)
  const { role, clusterRole } = roleKinds(check)
  const { roleBinding, clusterRoleBinding } = bindingKinds(check)
  const served = ({ model, rules }: BuiltInKind) => ServedModel.builtIn(model, { rules })
  const kinds = {
    roles: served(role),
    clusterRoles: served(clusterRole),
    roleBindings: served(roleBinding),
    clusterRoleBindings: served(clusterRoleBinding),
  }
  return { ...kinds, all: Object.values(kinds) }
}
