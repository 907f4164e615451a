import type { Grant } from '../authorize.ts'
import { serviceAccountOf } from '../service-account-user.ts'

export interface RoleRef {
  readonly kind: 'Role' | 'ClusterRole'
  readonly name: string
}

/** A user or group. A service account is the user `system:serviceaccount:<namespace>:<name>`. */
export interface Subject {
  readonly kind: 'User' | 'Group'
  readonly name: string
}

/** A RoleBinding or ClusterRoleBinding. */
export interface Binding {
  readonly role: RoleRef
  readonly subjects: readonly Subject[]
}

/** The place of a role or binding. */
export interface RbacKey {
  /** Undefined for a ClusterRole or ClusterRoleBinding. */
  readonly namespace: string | undefined
  readonly name: string
}

/** The role that a binding gives to a subject. */
export class BindingGrant implements Grant {
  readonly role: RoleRef
  readonly #binding: RbacKey
  readonly #subject: Subject

  constructor(binding: RbacKey, role: RoleRef, subject: Subject) {
    this.#binding = binding
    this.role = role
    this.#subject = subject
  }

  get reason(): string {
    const { namespace, name } = this.#binding
    const binding =
      namespace === undefined
        ? `ClusterRoleBinding ${JSON.stringify(name)}`
        : `RoleBinding ${JSON.stringify(`${name}/${namespace}`)}`
    const { kind, name: role } = this.role
    return `RBAC: allowed by ${binding} of ${kind} ${JSON.stringify(role)} to ${describe(this.#subject)}`
  }
}

function describe({ kind, name }: Subject): string {
  const account = kind === 'User' ? serviceAccountOf(name) : undefined
  if (account === undefined) return `${kind} ${JSON.stringify(name)}`
  return `ServiceAccount ${JSON.stringify(`${account.name}/${account.namespace}`)}`
}
