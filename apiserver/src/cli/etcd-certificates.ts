import { createSecureContext } from 'node:tls'
import type { Logger } from '@setpoint/controller-runtime'
import { FileWatch } from '../security/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import { CertificateValidity } from './certificate-validity.ts'
import type { EtcdStoreOptions } from './flags-store.ts'
import { checkKeyPair } from './key-pair.ts'

type Name = keyof EtcdStoreOptions['tls']

/**
 * CA and client certificates for etcd. Reloads them when the files change. Reports unusable ones and keeps the old ones,
 * and reports a client certificate that expires.
 */
export class EtcdCertificates {
  /** The present PEM files. Undefined without any: plain http endpoints use none. */
  readonly tls: EtcdStorageOptions['tls']
  readonly #files: FileWatch | undefined
  readonly #validity: CertificateValidity

  constructor(files: EtcdStoreOptions['tls'], log: Logger) {
    this.#validity = new CertificateValidity('etcd refuses it', log)
    const names = (['ca', 'cert', 'key'] as const).filter(name => files[name] !== undefined)
    if (names.length === 0) return
    const known = names.map(name => files[name]?.text ?? '')
    const paths = names.map(name => files[name]?.path ?? '')
    const current = buffersOf(names, known)
    this.tls = current
    if (files.cert !== undefined) this.#validity.watch(files.cert)
    const failed = (error: unknown) =>
      log.error({ paths, err: error }, 'failed to reload the certificates for etcd, keeping the old ones')
    this.#files = new FileWatch({
      paths,
      known,
      failed,
      changed: texts => {
        const renewed = buffersOf(names, texts)
        if (renewed.cert !== undefined && renewed.key !== undefined)
          checkKeyPair({ cert: String(renewed.cert), key: String(renewed.key) })
        createSecureContext(renewed)
        Object.assign(current, renewed)
        log.info({ paths }, 'reloaded the certificates for etcd')
        if (files.cert !== undefined)
          this.#validity.watch({ path: files.cert.path, text: String(renewed.cert) })
      },
    })
  }

  close(): void {
    this.#files?.close()
    this.#validity.close()
  }
}

function buffersOf(names: readonly Name[], texts: readonly string[]): Partial<Record<Name, Buffer>> {
  return Object.fromEntries(names.map((name, at) => [name, Buffer.from(texts[at] ?? '')]))
}
