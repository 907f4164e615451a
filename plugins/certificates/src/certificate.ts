import {
  conditionsSchema,
  type DeepReadonly,
  defineModel,
  getCondition,
  multiValueIndex,
  type ObjectOf,
  singleValueIndex,
} from '@setpoint/controller-runtime'
import { durationPattern } from './duration.ts'
import { group, version } from './group.ts'
import { problemOfDnsName, problemOfIpAddress, problemOfUri } from './names.ts'

/** Bounds of certificates. */
export const certificateDefaults = Object.freeze({
  /** 90 days, as cert-manager. */
  duration: '2160h',
  /** Small and fast, and every TLS client of the last ten years knows it. */
  algorithm: 'ECDSA' as const,
  /** Names of each kind. A certificate with more is hard to transfer in a TLS handshake. */
  names: 100,
  /** Replaced certificates that are remembered until they expire, to be revoked with the object. */
  superseded: 20,
})

const keyAlgorithms = ['RSA', 'ECDSA', 'Ed25519'] as const
export type KeyAlgorithm = (typeof keyAlgorithms)[number]

/** Usages of a key, with the names of Kubernetes' CertificateSigningRequest. */
export const usages = [
  'digital signature',
  'content commitment',
  'key encipherment',
  'data encipherment',
  'key agreement',
  'cert sign',
  'crl sign',
  'server auth',
  'client auth',
  'code signing',
  'email protection',
  'timestamping',
  'ocsp signing',
] as const
export type Usage = (typeof usages)[number]

/** A certificate that is wanted: its names, its issuer, and when to renew it. */
export const Certificate = defineModel({
  group,
  version,
  kind: 'Certificate',
  singular: 'certificate',
  plural: 'certificates',
  shortNames: ['cert'],
  schema: {
    spec: {
      type: 'object',
      required: ['issuerRef'],
      example: { issuerRef: { name: 'internal' }, dnsNames: ['shop.example.com'], duration: '2160h' },
      properties: {
        commonName: {
          type: 'string',
          minLength: 1,
          maxLength: 64,
          description: 'The subject. Clients compare only the other names.',
        },
        dnsNames: {
          type: 'array',
          maxItems: certificateDefaults.names,
          'x-kubernetes-list-type': 'set',
          items: { type: 'string', maxLength: 253 },
          description: 'Hosts. The first label may be *.',
        },
        ipAddresses: {
          type: 'array',
          maxItems: certificateDefaults.names,
          'x-kubernetes-list-type': 'set',
          items: { type: 'string', maxLength: 45 },
        },
        uris: {
          type: 'array',
          maxItems: certificateDefaults.names,
          'x-kubernetes-list-type': 'set',
          items: { type: 'string', maxLength: 2048 },
          description: 'Identities such as spiffe://example.com/web.',
        },
        duration: {
          type: 'string',
          pattern: durationPattern,
          description: "How long it is valid, such as 2160h, the default; not longer than the issuer's CA.",
        },
        renewBefore: {
          type: 'string',
          pattern: durationPattern,
          description: 'How long before its end it is renewed. Default: a third of its validity.',
        },
        key: {
          type: 'object',
          properties: {
            algorithm: { type: 'string', enum: keyAlgorithms, description: 'Default: ECDSA.' },
            size: {
              type: 'integer',
              enum: [256, 384, 521, 2048, 3072, 4096],
              description: 'In bits. Default: 2048 for RSA, 256 for ECDSA.',
            },
          },
          'x-kubernetes-validations': [
            {
              rule: "self.algorithm != 'RSA' || !has(self.size) || self.size >= 2048",
              message: 'RSA keys have 2048, 3072 or 4096 bits',
              fieldPath: '.size',
            },
            {
              rule: "self.algorithm != 'ECDSA' || !has(self.size) || self.size <= 521",
              message: 'ECDSA keys have 256, 384 or 521 bits',
              fieldPath: '.size',
            },
            {
              rule: "self.algorithm != 'Ed25519' || !has(self.size)",
              message: 'Ed25519 keys have no size',
              fieldPath: '.size',
            },
          ],
        },
        isCA: { type: 'boolean', description: 'Whether it may sign other certificates.' },
        usages: {
          type: 'array',
          maxItems: usages.length,
          'x-kubernetes-list-type': 'set',
          items: { type: 'string', enum: usages },
          description: 'Default: cert sign and crl sign for a CA, else those of TLS servers and clients.',
        },
        issuerRef: {
          type: 'object',
          required: ['name'],
          properties: { name: { type: 'string', minLength: 1, maxLength: 253 } },
        },
        keyRef: {
          type: 'object',
          required: ['name'],
          properties: {
            name: {
              type: 'string',
              minLength: 1,
              maxLength: 253,
              'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'is immutable' }],
            },
          },
          description: 'The KeyPair for the key and the certificate. Default: the name of this object.',
        },
      },
      'x-kubernetes-validations': [
        {
          rule: 'has(self.commonName) || self.?dnsNames.orValue([]).size() + self.?ipAddresses.orValue([]).size() + self.?uris.orValue([]).size() > 0',
          message: 'needs a commonName, dnsNames, ipAddresses or uris',
        },
        {
          rule: 'has(self.commonName) || !self.isCA',
          message: 'a CA needs a commonName',
          fieldPath: '.commonName',
        },
        {
          rule: "duration(self.duration) >= duration('1m')",
          message: 'must be at least a minute',
          fieldPath: '.duration',
        },
        {
          rule: '!has(self.renewBefore) || duration(self.renewBefore) < duration(self.duration)',
          message: 'must be shorter than the duration',
          fieldPath: '.renewBefore',
        },
      ],
    },
    status: {
      type: 'object',
      properties: {
        conditions: conditionsSchema,
        serial: { type: 'string', description: 'Hexadecimal.' },
        issuer: { type: 'string', description: 'The issuer that has signed it.' },
        notBefore: { type: 'string', format: 'date-time' },
        notAfter: { type: 'string', format: 'date-time', description: 'When it expires.' },
        renewalTime: { type: 'string', format: 'date-time', description: 'When it is renewed.' },
        fingerprint: { type: 'string', description: 'SHA-256 of the certificate.' },
        superseded: {
          type: 'array',
          maxItems: certificateDefaults.superseded,
          items: {
            type: 'object',
            required: ['serial', 'issuer', 'notAfter'],
            properties: {
              serial: { type: 'string' },
              issuer: { type: 'string' },
              notAfter: { type: 'string', format: 'date-time' },
            },
          },
          description: 'Replaced certificates that have not expired.',
        },
      },
    },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.issuerRef.name', indexFunc: ({ spec }) => spec.issuerRef.name }),
    singleValueIndex({ name: 'spec.keyRef.name', indexFunc: ({ spec }) => spec.keyRef?.name }),
    multiValueIndex({
      name: 'spec.names',
      indexFunc: ({ spec }) => [...(spec.dnsNames ?? []), ...(spec.ipAddresses ?? []), ...(spec.uris ?? [])],
    }),
    // Times in UTC of one form, so that their order as text is their order in time.
    singleValueIndex({ name: 'status.notAfter', indexFunc: ({ status }) => status?.notAfter }),
    singleValueIndex({
      name: 'status.ready',
      indexFunc: ({ status }) => getCondition(status?.conditions, 'Ready')?.status ?? 'Unknown',
    }),
  ],
  // Here and not in the schema, because a server compiles each default of a schema when it starts.
  default({ metadata, spec }) {
    spec.duration ??= certificateDefaults.duration
    spec.key ??= {}
    spec.key.algorithm ??= certificateDefaults.algorithm
    spec.isCA ??= false
    spec.keyRef ??= { name: metadata.name }
  },
  validate({ spec }) {
    const problems = (
      field: string,
      names: readonly string[] = [],
      problemOf: (name: string) => string | undefined,
    ) =>
      names.flatMap((name, at) => {
        const message = problemOf(name)
        return message === undefined ? [] : [{ field: `spec.${field}[${at}]`, message }]
      })
    return [
      ...problems('dnsNames', spec.dnsNames, problemOfDnsName),
      ...problems('ipAddresses', spec.ipAddresses, problemOfIpAddress),
      ...problems('uris', spec.uris, problemOfUri),
    ]
  },
  printerColumns: [
    { name: 'Issuer', type: 'string', jsonPath: '.spec.issuerRef.name' },
    { name: 'Serial', type: 'string', jsonPath: '.status.serial', priority: 1 },
    // Not dates, which are shown as the time since then.
    { name: 'Renewal', type: 'string', jsonPath: '.status.renewalTime' },
    { name: 'Expires', type: 'string', jsonPath: '.status.notAfter' },
  ],
})

export type CertificateObject = ObjectOf<typeof Certificate>
export type CertificateStatus = NonNullable<CertificateObject['status']>

/** The name of the certificate's KeyPair. */
export function keyNameOf({ metadata, spec }: DeepReadonly<CertificateObject>): string {
  return spec.keyRef?.name ?? metadata.name
}
