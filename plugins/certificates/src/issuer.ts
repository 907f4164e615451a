import {
  conditionsSchema,
  type DeepReadonly,
  defineModel,
  getCondition,
  type ObjectOf,
  singleValueIndex,
} from '@setpoint/controller-runtime'
import { group, version } from './group.ts'

/** Signs certificates: with their own keys (`selfSigned`), or with the key of a CA. */
export const Issuer = defineModel({
  group,
  version,
  kind: 'Issuer',
  singular: 'issuer',
  plural: 'issuers',
  schema: {
    spec: {
      type: 'object',
      example: { selfSigned: {} },
      properties: {
        selfSigned: {
          type: 'object',
          description: 'Each certificate is signed with its own key. For roots, and for tests.',
        },
        ca: {
          type: 'object',
          required: ['keyPairName'],
          properties: {
            keyPairName: {
              type: 'string',
              minLength: 1,
              maxLength: 253,
              description: 'The KeyPair with the key and the certificate of the CA.',
            },
          },
        },
      },
      'x-kubernetes-validations': [
        { rule: 'has(self.selfSigned) != has(self.ca)', message: 'needs either selfSigned or ca' },
      ],
    },
    status: {
      type: 'object',
      properties: {
        conditions: conditionsSchema,
        ca: {
          type: 'object',
          required: ['subject', 'notAfter', 'fingerprint'],
          properties: {
            subject: { type: 'string' },
            notAfter: { type: 'string', format: 'date-time', description: 'When the CA expires.' },
            fingerprint: { type: 'string', description: "SHA-256 of the CA's certificate." },
          },
          description: 'The CA that signs, if it can.',
        },
      },
    },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.ca.keyPairName', indexFunc: issuer => issuer.spec.ca?.keyPairName }),
  ],
  printerColumns: [
    { name: 'CA', type: 'string', jsonPath: '.status.ca.subject' },
    { name: 'Expires', type: 'string', jsonPath: '.status.ca.notAfter' },
  ],
})

export type IssuerObject = ObjectOf<typeof Issuer>

/** Returns true if the issuer can sign, in its current form. */
export function isReady({ metadata, status }: DeepReadonly<IssuerObject>): boolean {
  const ready = getCondition(status?.conditions, 'Ready')
  return ready?.status === 'True' && ready.observedGeneration === metadata.generation
}
