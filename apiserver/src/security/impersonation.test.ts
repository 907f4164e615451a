import { expect, it } from 'vitest'
import { ImpersonatingAccess, impersonationLimits } from './impersonation.ts'
import { LocalAccess } from './local-access.ts'
import { RbacAuthorizer } from './rbac/index.ts'

const authorizer = new RbacAuthorizer({ isSensitive: () => false })
const access = new ImpersonatingAccess(new LocalAccess(), authorizer)
const admin = { user: { name: 'ann', groups: ['setpoint:admins'] }, credential: undefined }
const { values } = impersonationLimits

/** Returns the groups of a user who is impersonated with so many groups and values of an extra attribute. */
function groupsOf(groups: number, extra: number): readonly string[] {
  const list = (count: number) => Array.from({ length: count }, (_, n) => `n${n}`).join(', ')
  const headers = {
    'impersonate-user': 'ben',
    'impersonate-group': list(groups),
    'impersonate-extra-scopes': list(extra),
  }
  return access.impersonate(admin, headers).user.groups
}

it('an impersonated user may have the limit of groups and extra values together, and not one more', () => {
  expect(groupsOf(values - 1, 1)).toEqual([
    ...Array.from({ length: values - 1 }, (_, n) => `n${n}`),
    'system:authenticated',
  ])
  expect(() => groupsOf(values - 1, 2)).toThrow(
    'the impersonated user has 1001 groups and extra values, at most 1000 are allowed',
  )
})
