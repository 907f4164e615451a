/**
 * What happened: an event of `audit.k8s.io/v1` for each request, at the level that a policy says, in a file and at a
 * webhook.
 *
 * - A slow or failing destination never blocks a request. Events that are lost for it are counted.
 * - Bodies of sensitive kinds are never recorded, whatever the policy says.
 * - Without a destination nothing here runs.
 */
export type { AuditTarget } from './audit-event.ts'
export * from './audit-file.ts'
export * from './audit-log.ts'
export * from './audit-webhook.ts'
export * from './audited-request.ts'
export * from './policy.ts'
export * from './policy-file.ts'
export type { RotationLimits } from './rotation.ts'
