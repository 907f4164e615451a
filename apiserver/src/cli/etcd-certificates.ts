import { createSecureContext } from 'node:tls'
import type { Logger } from '@setpoint/controller-runtime'
import { FileWatch } from '../security/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import { reportInvalid } from './certificate-validity.ts'
import type { EtcdStoreOptions } from './flags-store.ts'

type Name = keyof EtcdStoreOptions['tls']

/**
 * CA and client certificates for etcd. Reloads them when the files change. Reports unusable ones and keeps the old ones,
 * and reports a client certificate that has expired.
 */
export class EtcdCertificates {
  /** The present PEM files. Undefined without any: plain http endpoints use none. */
  readonly tls: EtcdStorageOptions['tls']
  readonly #files: FileWatch | undefined

  constructor(files: EtcdStoreOptions['tls'], log: Logger) {
    const names = (['ca', 'cert', 'key'] as const).filter(name => files[name] !== undefined)
    if (names.length === 0) return
    const known = names.map(name => files[name]?.text ?? '')
    const paths = names.map(name => files[name]?.path ?? '')
    const current = buffersOf(names, known)
    this.tls = current
    const reportClient = (text = '') => {
      if (files.cert !== undefined) reportInvalid({ path: files.cert.path, text }, 'etcd refuses it', log)
    }
    reportClient(files.cert?.text)
    const failed = (error: unknown) =>
      log.error({ paths, err: error }, 'failed to reload the certificates for etcd, keeping the old ones')
    this.#files = new FileWatch({
      paths,
      known,
      failed,
      changed: texts => {
        const renewed = buffersOf(names, texts)
        createSecureContext(renewed)
        Object.assign(current, renewed)
        log.info({ paths }, 'reloaded the certificates for etcd')
        reportClient(texts[names.indexOf('cert')])
      },
    })
  }

  close(): void {
    this.#files?.close()
  }
}

function buffersOf(names: readonly Name[], texts: readonly string[]): Partial<Record<Name, Buffer>> {
  return Object.fromEntries(names.map((name, at) => [name, Buffer.from(texts[at] ?? '')]))
}
