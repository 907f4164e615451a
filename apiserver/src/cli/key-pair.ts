import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

/** The texts of a PEM file with a certificate, and of one with its private key. */
interface KeyPair {
  readonly cert: string
  readonly key: string
}

/**
 * Checks that TLS can use a certificate and its key. OpenSSL's own messages, such as "bad decrypt" and "no start line",
 * name neither the file nor the remedy.
 * @throws Error
 */
export function checkKeyPair({ cert, key }: KeyPair): void {
  const isKey = (text: string) => /-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)
  const isCertificate = (text: string) => text.includes('-----BEGIN CERTIFICATE-----')
  if (!isCertificate(cert) && isCertificate(key) && isKey(cert))
    throw new Error('the certificate and the key are swapped')
  if (!isCertificate(cert)) throw new Error('the file of the certificate has no certificate')
  if (!isKey(key)) throw new Error('the file of the key has no private key')
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(key))
    throw new Error('the key has a passphrase: remove it with `openssl pkey -in KEY -out NEW_KEY`')
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
    throw new Error('the key does not belong to the certificate')
  createSecureContext({ cert, key })
}
