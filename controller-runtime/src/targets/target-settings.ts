import type { SettingsOf } from '../plugin/index.ts'

/** Private networks are not among them: targets there are common, and not every service there trusts the network. */
const deniedNetworks: readonly string[] = Object.freeze([
  // Unspecified addresses, which lead to this machine, and loopback.
  '0.0.0.0/8',
  '127.0.0.0/8',
  // Link-local addresses, with the metadata services of most clouds.
  '169.254.0.0/16',
  'fe80::/10',
  // Metadata services and agents elsewhere: Alibaba, Azure, Oracle (the first one in a network for protocols).
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.0/24',
  // The same for IPv6: Alibaba, AWS (with the credentials of pods), Google, Linode, Oracle, Scaleway.
  'fd00:100::100:200/128',
  'fd00:ec2::/32',
  'fd20:ce::254/128',
  'fd00:a9fe:a9fe::1/128',
  'fd00:c1::a9fe:a9fe/128',
  'fd00:42::42/128',
  // Multicast and broadcast.
  '224.0.0.0/4',
  'ff00::/8',
  '255.255.255.255/32',
  // IPv6 addresses that contain an IPv4 address: compatible ones with :: and ::1, translated ones, NAT64 of a site,
  // Teredo, 6to4.
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b:1::/48',
  '2001::/32',
  '2002::/16',
])

/** The settings of a `TargetPolicy`, for the properties of a plugin's settings. */
export const targetSettings = {
  allowedHosts: {
    type: 'array',
    default: [],
    description: 'Host names that may be targets, such as hooks.example.com or *.example.com. Default: all.',
    items: { type: 'string', minLength: 1 },
  },
  deniedNetworks: {
    type: 'array',
    default: deniedNetworks,
    description:
      'Networks in CIDR notation that no target may be in. Default: loopback, link-local, multicast and unspecified addresses, and the metadata services of clouds.',
    items: { type: 'string', minLength: 1 },
  },
  allowedNetworks: {
    type: 'array',
    default: [],
    description: 'Networks in CIDR notation that targets may be in although they are among the denied ones.',
    items: { type: 'string', minLength: 1 },
  },
} as const

/** The values of `targetSettings`. */
export type TargetSettings = SettingsOf<{ readonly properties: typeof targetSettings }>
