import { Cidr, IpAddress } from './addresses.ts'
import { type OverloadTable, overload } from './overloads.ts'
import { bool, type CelType, int, string } from './types.ts'

const ip: CelType = { kind: 'ip' }
const cidr: CelType = { kind: 'cidr' }

/** The functions for IP addresses and networks, as in Kubernetes. */
export const addressFunctions: OverloadTable = {
  ip: [overload(['string'], ip, ([text]) => IpAddress.parse(text))],
  isIP: [overload(['string'], bool, ([text]) => IpAddress.read(text) !== undefined)],
  'ip.isCanonical': [overload(['string'], bool, ([text]) => IpAddress.parse(text).toString() === text)],
  cidr: [overload(['string'], cidr, ([text]) => Cidr.parse(text))],
  isCIDR: [overload(['string'], bool, ([text]) => Cidr.read(text) !== undefined)],
}

export const addressMethods: OverloadTable = {
  family: [overload(['ip'], int, ([{ family }]) => BigInt(family))],
  isUnspecified: [overload(['ip'], bool, ([{ isUnspecified }]) => isUnspecified)],
  isLoopback: [overload(['ip'], bool, ([{ isLoopback }]) => isLoopback)],
  isLinkLocalMulticast: [overload(['ip'], bool, ([{ isLinkLocalMulticast }]) => isLinkLocalMulticast)],
  isLinkLocalUnicast: [overload(['ip'], bool, ([{ isLinkLocalUnicast }]) => isLinkLocalUnicast)],
  isGlobalUnicast: [overload(['ip'], bool, ([{ isGlobalUnicast }]) => isGlobalUnicast)],
  containsIP: [
    overload(['cidr', 'string'], bool, ([network, text]) => network.contains(IpAddress.parse(text))),
    overload(['cidr', 'ip'], bool, ([network, address]) => network.contains(address)),
  ],
  containsCIDR: [
    overload(['cidr', 'string'], bool, ([network, text]) => network.containsNetwork(Cidr.parse(text))),
    overload(['cidr', 'cidr'], bool, ([network, other]) => network.containsNetwork(other)),
  ],
  ip: [overload(['cidr'], ip, ([{ address }]) => address)],
  masked: [overload(['cidr'], cidr, ([{ masked }]) => masked)],
  prefixLength: [overload(['cidr'], int, ([{ prefixLength }]) => BigInt(prefixLength))],
}

/** What `string(x)` makes of them. */
export const addressTexts = [
  overload(['ip'], string, ([address]) => address.toString()),
  overload(['cidr'], string, ([network]) => network.toString()),
]
