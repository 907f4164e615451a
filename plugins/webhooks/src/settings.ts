import { type SettingsOf, targetSettings } from '@setpoint/controller-runtime'

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
    ...targetSettings,
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
