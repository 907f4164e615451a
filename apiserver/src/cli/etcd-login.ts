import type { Logger } from '@setpoint/controller-runtime'
import type { WatchedFiles } from '../security/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import { passwordIn } from './flags-files.ts'
import type { EtcdStoreOptions } from './flags-store.ts'

/**
 * Returns the user of etcd, if there is one. Reloads the password when its file changes, and keeps the one before as
 * well.
 */
export function etcdLogin(
  { credentials }: Pick<EtcdStoreOptions, 'credentials'>,
  { files, log }: { files: WatchedFiles; log: Logger },
): EtcdStorageOptions['auth'] {
  if (credentials === undefined) return undefined
  const { username: user, password, passwordFile } = credentials
  const current = { user, password }
  if (passwordFile === undefined) return current
  const { path, text } = passwordFile
  files.follow('etcd-password-file', {
    paths: [path],
    known: [text],
    failed: error =>
      log.error({ path, err: error }, 'failed to reload the password for etcd, keeping the old one'),
    changed: ([renewed = '']) => {
      const next = passwordIn(renewed)
      if (next === current.password) return
      Object.assign(current, { password: next, previousPassword: current.password })
      log.info({ path }, 'reloaded the password for etcd')
    },
  })
  return current
}
