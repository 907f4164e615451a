import { anyChange, type DeepReadonly, defineModel, type ObjectOf } from '@setpoint/controller-runtime'
import { group, version } from './group.ts'

/** Longest PEM text of a key or a chain: ten certificates with RSA keys of 4096 bits have about 25 KB. */
const maxPemLength = 65_536

/**
 * A private key with its certificate chain. The plugin creates one for each `Certificate`; people create those of CAs
 * that they bring along. Everything is in `spec`, because the object is data: no controller has to make it true.
 *
 * It is the only kind with private keys, so that access to it can be denied separately.
 */
export const KeyPair = defineModel({
  group,
  version,
  kind: 'KeyPair',
  singular: 'keypair',
  plural: 'keypairs',
  sensitive: true,
  schema: {
    spec: {
      type: 'object',
      required: ['privateKey'],
      properties: {
        privateKey: {
          type: 'string',
          maxLength: maxPemLength,
          pattern: '^-----BEGIN [A-Z ]*PRIVATE KEY-----\\s',
          description: 'The private key, as PEM. Encrypted if the plugin has a passphrase.',
        },
        certificate: {
          type: 'string',
          maxLength: maxPemLength,
          pattern: '^-----BEGIN CERTIFICATE-----\\s',
          description: 'The certificate and the intermediate ones, as PEM, each signed by the next.',
        },
        ca: {
          type: 'string',
          maxLength: maxPemLength,
          pattern: '^-----BEGIN CERTIFICATE-----\\s',
          description: 'The certificate at the end of the chain, as PEM: the one to trust.',
        },
        issued: {
          type: 'object',
          required: ['request', 'issuer', 'authority'],
          properties: {
            request: { type: 'string', description: 'SHA-256 of the request that the certificate fulfils.' },
            issuer: { type: 'string', description: 'Name of the issuer.' },
            authority: {
              type: 'string',
              description: "SHA-256 of the CA's certificate, or self for a self-signed certificate.",
            },
          },
          description: 'Set by the plugin: what it has issued the certificate for.',
        },
      },
    },
  },
  printerColumns: [{ name: 'Issuer', type: 'string', jsonPath: '.spec.issued.issuer' }],
})

export type KeyPairObject = ObjectOf<typeof KeyPair>
export type KeyPairSpec = KeyPairObject['spec']

/** How controllers cache key pairs: their events count, and no cache needs the keys. */
export const withoutPrivateKeys = Object.freeze({
  transform: (keyPair: DeepReadonly<KeyPairObject>): DeepReadonly<KeyPairObject> => ({
    ...keyPair,
    spec: { ...keyPair.spec, privateKey: '' },
  }),
  // The cached states before and after a change of only the key are equal.
  filter: anyChange,
})
