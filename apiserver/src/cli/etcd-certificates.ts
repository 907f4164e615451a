import { createSecureContext } from 'node:tls'
import type { Logger } from '@setpoint/controller-runtime'
import { FileWatch } from '../security/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import type { EtcdStoreOptions } from './flags.ts'

type Name = keyof EtcdStoreOptions['tls']

/**
 * What the program trusts in etcd and shows to it, as it stands in files that may be renewed while it runs. What cannot
 * be used is reported, and the one before stays.
 */
export class EtcdCertificates {
  /** PEM, of the files as they are now. Undefined where none is given: plain http endpoints take none. */
  readonly tls: EtcdStorageOptions['tls']
  readonly #files: FileWatch | undefined

  constructor(files: EtcdStoreOptions['tls'], log: Logger) {
    const names = (['ca', 'cert', 'key'] as const).filter(name => files[name] !== undefined)
    if (names.length === 0) return
    const known = names.map(name => files[name]?.text ?? '')
    const paths = names.map(name => files[name]?.path ?? '')
    const current = buffersOf(names, known)
    this.tls = current
    const failed = (error: unknown) =>
      log.error(
        { paths, err: error },
        'the certificates for etcd cannot be renewed; those before stay in use',
      )
    this.#files = new FileWatch({
      paths,
      known,
      failed,
      changed: texts => {
        const renewed = buffersOf(names, texts)
        createSecureContext(renewed)
        Object.assign(current, renewed)
        log.info({ paths }, 'the certificates for etcd have been renewed')
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
