import type { SettingsOf } from '@setpoint/controller-runtime'

/**
 * Networks without targets: loopback, link-local (with the metadata services of clouds), unspecified and
 * multicast addresses.
 */
const deniedNetworks = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '255.255.255.255/32',
  '::/128',
  '::1/128',
  'fe80::/10',
  'fd00:ec2::254/128',
  'ff00::/8',
]

/** What operators set. */
export const settings = {
  type: 'object',
  properties: {
    signingKeys: {
      type: 'object',
      default: {},
      description:
        'Secrets by name, as in Standard Webhooks: whsec_ and at least 24 bytes in base64. Several are separated by spaces: every delivery is signed with each, so that a key can be replaced.',
      additionalProperties: {
        type: 'string',
        secret: true,
        pattern: '^whsec_[A-Za-z0-9+/]{32,}={0,2}( whsec_[A-Za-z0-9+/]{32,}={0,2})*$',
      },
    },
    allowedHosts: {
      type: 'array',
      default: [],
      description:
        'Host names that may be targets, such as hooks.example.com or *.example.com. Default: all.',
      items: { type: 'string', minLength: 1 },
    },
    deniedNetworks: {
      type: 'array',
      default: deniedNetworks,
      description: 'Networks in CIDR notation that no target may be in.',
      items: { type: 'string', minLength: 1 },
    },
    requestsPerTarget: {
      type: 'integer',
      minimum: 1,
      maximum: 1000,
      default: 8,
      description: 'Concurrent requests to one target: a scheme, host and port.',
    },
    sharedRequests: {
      type: 'integer',
      minimum: 0,
      maximum: 10_000,
      default: 64,
      description: 'Concurrent requests to all targets, besides one for each target.',
    },
  },
} as const

export type Settings = SettingsOf<typeof settings>
