import { createSecureContext } from 'node:tls'
import type { Logger } from '@setpoint/controller-runtime'
import type { WatchedFiles } from '../security/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import type { CertificateValidity } from './certificate-validity.ts'
import { checkAuthorities } from './flags-files.ts'
import type { EtcdStoreOptions } from './flags-store.ts'
import { checkKeyPair } from './key-pair.ts'

type Name = keyof EtcdStoreOptions['tls']

/**
 * Returns the present CA and client certificates for etcd, or undefined without any: plain http endpoints use none.
 * Reloads them when the files change. Reports unusable ones and keeps the old ones, and reports a certificate that
 * expires.
 */
export function etcdCertificates(
  given: EtcdStoreOptions['tls'],
  { files, validity, log }: { files: WatchedFiles; validity: CertificateValidity; log: Logger },
): EtcdStorageOptions['tls'] {
  const names = (['ca', 'cert', 'key'] as const).filter(name => given[name] !== undefined)
  if (names.length === 0) return undefined
  const known = names.map(name => given[name]?.text ?? '')
  const paths = names.map(name => given[name]?.path ?? '')
  const current = buffersOf(names, known)
  const watchValidity = ({ ca, cert }: typeof current) => {
    if (given.ca !== undefined) validity.watch('etcd-ca', { path: given.ca.path, text: String(ca) })
    if (given.cert !== undefined) validity.watch('etcd-client', { path: given.cert.path, text: String(cert) })
  }
  watchValidity(current)
  files.follow('etcd-cert', {
    paths,
    known,
    failed: error =>
      log.error({ paths, err: error }, 'failed to reload the certificates for etcd, keeping the old ones'),
    changed: texts => {
      const renewed = buffersOf(names, texts)
      if (renewed.cert !== undefined && renewed.key !== undefined)
        checkKeyPair({ cert: String(renewed.cert), key: String(renewed.key) })
      if (given.ca !== undefined) checkAuthorities({ path: given.ca.path, text: String(renewed.ca) })
      createSecureContext(renewed)
      Object.assign(current, renewed)
      log.info({ paths }, 'reloaded the certificates for etcd')
      watchValidity(renewed)
    },
  })
  return current
}

function buffersOf(names: readonly Name[], texts: readonly string[]): Partial<Record<Name, Buffer>> {
  return Object.fromEntries(names.map((name, at) => [name, Buffer.from(texts[at] ?? '')]))
}
