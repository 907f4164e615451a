/**
 * The kinds of `rbac.authorization.k8s.io/v1`: their validation, the check against escalation, the default roles, and
 * the connection to the authorizer, which stands in `security/rbac` because every request needs it and it needs no
 * kind. A write is in force on this server when it is acknowledged.
 */
export { followRoles } from './follow-roles.ts'
export { type RbacKinds, rbacKinds } from './rbac-kinds.ts'
export { RoleBounds, roleBoundsDefaults } from './role-bounds.ts'
export { RoleKeeper, roleKeeperDefaults } from './role-keeper.ts'
