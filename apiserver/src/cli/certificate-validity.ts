import { X509Certificate } from 'node:crypto'
import type { Logger } from '../log/index.ts'
import type { NamedText } from './flags-files.ts'

/**
 * Logs an error if a certificate has expired or is not valid yet. The peer refuses it in the handshake, and does not say
 * why.
 * @param consequence who refuses it
 */
export function reportInvalid(
  { path, text }: NamedText,
  consequence: 'clients refuse it' | 'etcd refuses it',
  log: Logger,
): void {
  const { validFrom, validTo } = new X509Certificate(text)
  const now = Date.now()
  if (now > Date.parse(validTo)) log.error({ path, validTo }, `the certificate has expired, ${consequence}`)
  if (now < Date.parse(validFrom))
    log.error({ path, validFrom }, `the certificate is not valid yet, ${consequence}; check the clock`)
}
