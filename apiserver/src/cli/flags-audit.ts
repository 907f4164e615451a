import type { RotationLimits } from '../audit/index.ts'
import { type Flag, value } from './flag.ts'
import { type NamedText, readAuditPolicy, readAuthorities, readSecretFile } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { readAuditLog, readCount, readLimit, readServerUrl, UsageError } from './flags-values.ts'

/** The flags of the audit log. */
export const auditFlags = Object.freeze({
  auditLog: value({
    name: 'audit-log',
    placeholder: 'FILE',
    description:
      'file for the audit log: one event of audit.k8s.io/v1 as JSON on each line; servers need one each',
    read: readAuditLog,
  }),
  auditPolicy: value({
    name: 'audit-policy',
    placeholder: 'FILE',
    description:
      'Policy of audit.k8s.io/v1: which requests are audited, at which level; reloaded when it changes. Without it, the metadata of every request',
    read: readAuditPolicy,
  }),
  auditLogMaxSize: value({
    name: 'audit-log-maxsize',
    placeholder: 'MEGABYTES',
    default: '100',
    description: 'size at which the audit log is rotated',
    read: readCount,
  }),
  auditLogMaxBackup: value({
    name: 'audit-log-maxbackup',
    placeholder: 'COUNT',
    default: '10',
    description: 'most rotated files that are kept; 0 for all',
    read: readLimit,
  }),
  auditLogMaxAge: value({
    name: 'audit-log-maxage',
    placeholder: 'DAYS',
    default: '0',
    description: 'days that rotated files are kept; 0 for ever',
    read: readLimit,
  }),
  auditWebhook: value({
    name: 'audit-webhook',
    placeholder: 'URL',
    description: 'URL that gets audit events in batches: POST of an EventList of audit.k8s.io/v1',
    read: readServerUrl,
  }),
  auditWebhookTokenFile: value({
    name: 'audit-webhook-token-file',
    placeholder: 'FILE',
    description: 'file with the bearer token for --audit-webhook; read again for each batch',
    read: readSecretFile,
  }),
  auditWebhookCa: value({
    name: 'audit-webhook-ca',
    placeholder: 'FILE',
    description: 'CA certificates (PEM) for the certificate of --audit-webhook',
    read: readAuthorities,
  }),
})

/** Where audit events go. At least one of `file` and `webhook` is there. */
export interface AuditOptions {
  /** Without it, the metadata of every request is recorded. */
  readonly policy: NamedText | undefined
  readonly file: { readonly path: string; readonly limits: RotationLimits } | undefined
  readonly webhook:
    | { readonly url: string; readonly token: NamedText | undefined; readonly ca: string | undefined }
    | undefined
}

const auditFileFlags: readonly Flag[] = [
  auditFlags.auditLogMaxSize,
  auditFlags.auditLogMaxBackup,
  auditFlags.auditLogMaxAge,
]
const auditWebhookFlags: readonly Flag[] = [auditFlags.auditWebhookTokenFile, auditFlags.auditWebhookCa]

/** @throws UsageError for an option without its destination */
export function auditOptions(settings: Settings): AuditOptions | undefined {
  const path = settings.optional(auditFlags.auditLog)
  const url = settings.optional(auditFlags.auditWebhook)
  const useless = [
    ...(path === undefined && url === undefined ? [auditFlags.auditPolicy] : []),
    ...(path === undefined ? auditFileFlags : []),
    ...(url === undefined ? auditWebhookFlags : []),
  ].find(flag => settings.isOnCommandLine(flag))
  if (useless !== undefined) {
    const needed = auditFileFlags.includes(useless)
      ? '--audit-log'
      : auditWebhookFlags.includes(useless)
        ? '--audit-webhook'
        : '--audit-log or --audit-webhook'
    throw new UsageError(`--${useless.name} needs ${needed}`)
  }
  if (path === undefined && url === undefined) return undefined
  const limits = {
    bytes: settings.value(auditFlags.auditLogMaxSize) * 1024 * 1024,
    backups: settings.value(auditFlags.auditLogMaxBackup),
    ageMs: settings.value(auditFlags.auditLogMaxAge) * 86_400_000,
  }
  const token = settings.optional(auditFlags.auditWebhookTokenFile)
  return {
    policy: settings.optional(auditFlags.auditPolicy),
    file: path === undefined ? undefined : { path, limits },
    webhook: url === undefined ? undefined : { url, token, ca: settings.optional(auditFlags.auditWebhookCa) },
  }
}
