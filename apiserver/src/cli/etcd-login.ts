import type { Logger } from '@setpoint/controller-runtime'
import { FileWatch } from '../security/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import { passwordIn } from './flags-files.ts'
import type { EtcdStoreOptions } from './flags-store.ts'

/** The user of etcd. Reloads the password when its file changes, and keeps the one before as well. */
export class EtcdLogin {
  /** Undefined without a user. */
  readonly credentials: EtcdStorageOptions['auth']
  readonly #file: FileWatch | undefined

  constructor({ credentials }: Pick<EtcdStoreOptions, 'credentials'>, log: Logger) {
    if (credentials === undefined) return
    const { username: user, password, passwordFile } = credentials
    const current = { user, password }
    this.credentials = current
    if (passwordFile === undefined) return
    const { path, text } = passwordFile
    this.#file = new FileWatch({
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
  }

  close(): void {
    this.#file?.close()
  }
}
