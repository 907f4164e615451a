import type { UserInfo } from '@setpoint/controller-runtime'
import type { AuditedRequest } from '../audit/index.ts'
import { forbidden, type Grant } from '../security/index.ts'
import type { RequestInfo } from './request-info.ts'

/** Records the decision about a request in the audit log. @throws ApiError 403 without a grant */
export function enforce(
  grant: Grant | undefined,
  user: UserInfo,
  { verb, target }: Pick<RequestInfo, 'verb' | 'target'>,
  audited: AuditedRequest | undefined,
): void {
  audited?.decided(grant)
  if (grant === undefined) throw forbidden(user, verb, target)
}
