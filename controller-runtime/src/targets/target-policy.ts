import { lookup } from 'node:dns/promises'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { unlessAborted } from '../unless-aborted.ts'
import type { TargetSettings } from './target-settings.ts'

/** The target must not be requested. The message says why. */
export class TargetDeniedError extends Error {
  override readonly name = 'TargetDeniedError'
}

/**
 * Decides which targets may be requested, by their host and by the addresses that it has.
 *
 *     const lookup = await policy.resolve(url.hostname, signal)
 *     const request = http.request(url, { lookup, signal })
 *
 * An IPv4 address is also recognized inside an IPv6 address: a mapped one (`::ffff:0:0/96`), and one behind NAT64
 * (`64:ff9b::/96`), which networks without IPv4 use for all IPv4 targets.
 *
 * Caveats: the policy does not see where a redirect, a proxy or a tunnel leads. `node:http` follows no redirects;
 * resolve the target of each one that you follow.
 */
export class TargetPolicy {
  readonly #allowedHosts: readonly string[]
  readonly #denied: BlockList
  readonly #allowed: BlockList

  /** @throws TypeError for an invalid network */
  constructor({ allowedHosts, deniedNetworks, allowedNetworks }: TargetSettings) {
    this.#allowedHosts = allowedHosts.map(host => host.toLowerCase())
    this.#denied = listOf(deniedNetworks, 'deniedNetworks')
    this.#allowed = listOf(allowedNetworks, 'allowedNetworks')
  }

  /**
   * Resolves a host and checks all of its addresses. Returns the `lookup` of a request to the host. It returns the
   * addresses that were checked, so that a name which resolves to another address a moment later has no effect.
   * @param hostname of a `URL`: a name, or an IPv6 address in brackets, or an IPv4 address
   * @throws TargetDeniedError if the host is not allowed, or one of its addresses is denied; the error of the resolver;
   * the signal's reason
   */
  async resolve(hostname: string, signal?: AbortSignal): Promise<LookupFunction> {
    const host = hostname
      .replace(/^\[|\]$/g, '')
      .replace(/\.$/, '')
      .toLowerCase()
    if (!this.#isAllowedHost(host))
      throw new TargetDeniedError(`the setting allowedHosts does not include ${host}`)
    const literal = isIP(host)
    // The resolution of a name cannot be cancelled.
    const found =
      literal === 0
        ? await unlessAborted(lookup(host, { all: true }), signal)
        : [{ address: host, family: literal }]
    const denied = found.some(({ address, family }) =>
      this.#isDenied(address, family === 6 ? 'ipv6' : 'ipv4'),
    )
    if (denied) throw new TargetDeniedError(`${host} is in a network of the setting deniedNetworks`)
    return (_hostname, options, callback) => {
      const [first] = found
      if (options.all) callback(null, [...found])
      else callback(null, first?.address ?? '', first?.family)
    }
  }

  #isAllowedHost(host: string): boolean {
    if (this.#allowedHosts.length === 0) return true
    return this.#allowedHosts.some(allowed =>
      allowed.startsWith('*.') ? host.endsWith(allowed.slice(1)) : host === allowed,
    )
  }

  #isDenied(address: string, family: 'ipv4' | 'ipv6'): boolean {
    return this.#denied.check(address, family) && !this.#allowed.check(address, family)
  }
}

/** @throws TypeError for an invalid network */
function listOf(networks: readonly string[], setting: string): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits = '', ...rest] = network.split('/')
    const family = isIP(address)
    const prefix = Number(bits)
    const isPrefix = /^\d{1,3}$/.test(bits) && prefix <= (family === 4 ? 32 : 128)
    if (family === 0 || !isPrefix || rest.length > 0)
      throw new TypeError(
        `the setting ${setting}: ${JSON.stringify(network)} is not a network such as 10.0.0.0/8`,
      )
    if (family === 6) list.addSubnet(address, prefix, 'ipv6')
    else {
      // This finds mapped addresses, too.
      list.addSubnet(address, prefix, 'ipv4')
      list.addSubnet(`64:ff9b::${address}`, 96 + prefix, 'ipv6')
    }
  }
  return list
}
