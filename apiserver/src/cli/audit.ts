import { readFile, realpath } from 'node:fs/promises'
import {
  AuditFile,
  AuditFileError,
  AuditLog,
  type AuditSink,
  AuditWebhook,
  metadataPolicy,
  readPolicy,
} from '../audit/index.ts'
import type { Logger } from '../log/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import type { WatchedFiles } from '../security/index.ts'
import type { ProcessLock } from '../storage/embedded/index.ts'
import type { AuditOptions } from './flags-audit.ts'

/** Opens the destinations of the audit log, and reloads its policy when the file changes. @throws AuditFileError */
export async function openAudit(
  { policy, file, webhook }: AuditOptions,
  models: () => ModelRegistry,
  { files, log }: { files: WatchedFiles; log: Logger },
): Promise<AuditLog> {
  const sinks: AuditSink[] = []
  if (file !== undefined)
    sinks.push(await AuditFile.open({ ...file, log, lock: () => lockAuditFile(file.path, log) }))
  if (webhook !== undefined) {
    const { url, token, ca } = webhook
    const readToken = token && (async () => (await readFile(token.path, 'utf8')).trim())
    sinks.push(new AuditWebhook({ url, token: readToken, ca, log }))
  }
  const audit = new AuditLog({
    policy: policy === undefined ? metadataPolicy : readPolicy(policy.text),
    sinks,
    isSensitive: (apiVersion, kind) => models().findKind(apiVersion, kind)?.model.sensitive ?? false,
  })
  if (policy === undefined) return audit
  const { path, text } = policy
  files.follow('audit-policy', {
    paths: [path],
    known: [text],
    failed: error =>
      log.error({ path, err: error }, 'failed to reload the audit policy, keeping the old one'),
    changed: ([changed = '']) => {
      audit.use(readPolicy(changed))
      log.info({ path }, 'reloaded the audit policy')
    },
  })
  return audit
}

/**
 * Locks an audit file for this process: two that rotate one file delete each other's events.
 * @returns undefined, with a warning, if the file system has no locks
 * @throws AuditFileError if another process holds it
 */
async function lockAuditFile(path: string, log: Logger): Promise<ProcessLock | undefined> {
  const { lockFile, LockHeldError } = await import('../storage/embedded/index.ts')
  try {
    // The file exists by now. A link to it leads to the same lock.
    return await lockFile(`${await realpath(path)}.lock`, false)
  } catch (error) {
    if (error instanceof LockHeldError)
      throw new AuditFileError(
        `the audit log ${JSON.stringify(path)} is in use by ${error.message}; give each server a file of its own`,
      )
    log.warn({ path, err: error }, 'failed to lock the audit log; make sure that no other process writes it')
    return undefined
  }
}
