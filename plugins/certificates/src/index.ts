/**
 * Issues X.509 certificates, renews them before they expire, and revokes them when they are deleted. It is a real
 * plugin and an example for authors; each file is one concept:
 *
 *     certificate.ts, issuer.ts, key-pair.ts, revocation-list.ts    the models: schemas, rules, hooks, indexes
 *     certificate-reconciler.ts    when to issue, and the finalizer that revokes
 *     certificate-status.ts        conditions, and what the status remembers
 *     issuance.ts                  from a Certificate and an Issuer to a KeyPair
 *     issuer-reconciler.ts         whether issuers can sign, and when CRLs are signed again
 *     revocations.ts               what is on a CRL
 *     authority.ts, chain.ts       reading CAs, keys and certificates
 *     x509.ts                      certificates and CRLs in ASN.1; the only file that loads the library
 *     routes.ts                    a route for each audience
 */
import { definePlugin } from '@setpoint/controller-runtime'
import { Certificate } from './certificate.ts'
import { superviseCertificates } from './certificate-reconciler.ts'
import { Issuer } from './issuer.ts'
import { superviseIssuers } from './issuer-reconciler.ts'
import { KeyPair } from './key-pair.ts'
import { RevocationList } from './revocation-list.ts'
import { Revocations } from './revocations.ts'
import { addRoutes, crlPathOf } from './routes.ts'

export { Certificate, type CertificateObject, type CertificateStatus } from './certificate.ts'
export { Issuer, type IssuerObject } from './issuer.ts'
export { KeyPair, type KeyPairObject } from './key-pair.ts'
export { RevocationList, type RevocationListObject } from './revocation-list.ts'

export default definePlugin({
  name: 'certificates',
  models: [Certificate, Issuer, KeyPair, RevocationList],
  settings: {
    type: 'object',
    properties: {
      keyPassphrase: {
        type: 'string',
        minLength: 8,
        secret: true,
        description: 'Encrypts new private keys, and decrypts stored ones. Default: keys are not encrypted.',
      },
      publicUrl: {
        type: 'string',
        pattern: '^https?://[^\\s?#]+$',
        description: 'Where clients reach this server; certificates then name the address of their CRL.',
      },
    },
  },
  setup(plugin) {
    const { keyPassphrase: passphrase, publicUrl } = plugin.settings
    const { events } = plugin
    const revocations = new Revocations(passphrase)
    const crlUrlOf = (issuer: string) =>
      publicUrl === undefined ? undefined : `${publicUrl.replace(/\/$/, '')}${crlPathOf(issuer)}`
    plugin.controller(Issuer, issuers => superviseIssuers(issuers, { passphrase, events, revocations }))
    plugin.controller(Certificate, certificates =>
      superviseCertificates(certificates, { passphrase, events, revocations, crlUrlOf }),
    )
    addRoutes(plugin)
  },
})
