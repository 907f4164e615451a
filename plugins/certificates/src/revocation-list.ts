import { defineModel, type ObjectOf } from '@setpoint/controller-runtime'
import { group, version } from './group.ts'

/** Bounds and times of revocation lists. */
export const revocationDefaults = Object.freeze({
  /** Certificates on a list. With 5,000 the object has 850 KB; a store takes 1.5 MiB. */
  entries: 5_000,
  /** How long clients may use a list before they fetch it again. */
  lifetimeMs: 7 * 86_400_000,
  /** When an unchanged list is signed again: after half of its lifetime, so that an outage of days does no harm. */
  refreshMs: 3.5 * 86_400_000,
})

/**
 * The certificates that an issuer has revoked, and the CRL that says so, signed by its CA. One object has both, so that
 * one write changes both. It has the name of the issuer and is owned by it.
 */
export const RevocationList = defineModel({
  group,
  version,
  kind: 'RevocationList',
  singular: 'revocationlist',
  plural: 'revocationlists',
  schema: {
    spec: {
      type: 'object',
      properties: {
        revoked: {
          type: 'array',
          maxItems: revocationDefaults.entries,
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['serial'],
          items: {
            type: 'object',
            required: ['serial', 'revokedAt', 'notAfter'],
            properties: {
              serial: { type: 'string', pattern: '^([0-9a-f]{2}){1,20}$', description: 'Hexadecimal.' },
              revokedAt: { type: 'string', format: 'date-time' },
              notAfter: {
                type: 'string',
                format: 'date-time',
                description: 'When the certificate expires. Some time later its entry is removed.',
              },
            },
          },
          description: 'The revoked certificates. People may add others of the same issuer.',
        },
        crl: {
          type: 'object',
          required: ['pem', 'number', 'thisUpdate', 'nextUpdate', 'authority', 'digest'],
          properties: {
            pem: { type: 'string' },
            number: { type: 'integer', description: 'Rises with each CRL.' },
            thisUpdate: { type: 'string', format: 'date-time' },
            nextUpdate: { type: 'string', format: 'date-time' },
            authority: { type: 'string', description: "SHA-256 of the signing CA's certificate." },
            digest: { type: 'string', description: 'SHA-256 of the revoked certificates that it has.' },
          },
          description: 'The signed list. Written by the plugin.',
        },
      },
    },
  },
  printerColumns: [
    { name: 'Number', type: 'integer', jsonPath: '.spec.crl.number' },
    { name: 'Next update', type: 'string', jsonPath: '.spec.crl.nextUpdate' },
  ],
})

export type RevocationListObject = ObjectOf<typeof RevocationList>
export type RevokedCertificate = NonNullable<RevocationListObject['spec']['revoked']>[number]
