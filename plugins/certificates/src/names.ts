import { isIP } from 'node:net'

/** Checks of subject alternative names. Each returns what is wrong with a name, or undefined. */

/** A label of a host name: RFC 1123, in lower case, so that equal names are equal texts. */
const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

export function problemOfDnsName(name: string): string | undefined {
  const [first = '', ...rest] = name.split('.')
  const labels = first === '*' && rest.length > 0 ? rest : [first, ...rest]
  if (labels.some(each => each.includes('*'))) return 'only the whole first label may be *'
  return labels.every(each => label.test(each))
    ? undefined
    : 'must be a host name in lower case, such as www.example.com'
}

export function problemOfIpAddress(address: string): string | undefined {
  return isIP(address) > 0 && !address.includes('%') ? undefined : 'must be an IPv4 or IPv6 address'
}

export function problemOfUri(uri: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(uri) && URL.canParse(uri) ? undefined : 'must be an absolute URI in ASCII'
}
