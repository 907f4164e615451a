import { lookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import type { Settings } from './settings.ts'

/** An address to connect to. */
export interface Address {
  readonly address: string
  readonly family: 4 | 6
}

/** The target must not be requested. The message says why. */
export class TargetDenied extends Error {
  override readonly name = 'TargetDenied'
}

/**
 * Decides which targets may be requested, so that a subscription cannot reach services that trust their own network. The
 * address is checked after the name was resolved, and the request goes to the address that was checked: a name that
 * resolves to another address a moment later has no effect.
 */
export class TargetPolicy {
  readonly #allowedHosts: readonly string[]
  readonly #denied = new BlockList()

  /** @throws TypeError for an invalid network */
  constructor({ allowedHosts, deniedNetworks }: Pick<Settings, 'allowedHosts' | 'deniedNetworks'>) {
    this.#allowedHosts = allowedHosts.map(host => host.toLowerCase())
    for (const network of deniedNetworks) {
      const [address = '', bits = '', ...rest] = network.split('/')
      const family = isIP(address)
      const prefix = Number(bits)
      const isPrefix = /^\d{1,3}$/.test(bits) && prefix <= (family === 4 ? 32 : 128)
      if (family === 0 || !isPrefix || rest.length > 0)
        throw new TypeError(
          `the setting deniedNetworks: ${JSON.stringify(network)} is not a network such as 10.0.0.0/8`,
        )
      this.#denied.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6')
    }
  }

  /**
   * Returns the addresses of a host.
   * @throws TargetDenied if the host is not allowed, or one of its addresses is denied; the error of the resolver.
   */
  async resolve(hostname: string): Promise<readonly Address[]> {
    const host = hostname
      .replace(/^\[|\]$/g, '')
      .replace(/\.$/, '')
      .toLowerCase()
    if (!this.#isAllowedHost(host))
      throw new TargetDenied(`the setting allowedHosts does not include ${host}`)
    const found =
      isIP(host) === 0 ? await lookup(host, { all: true }) : [{ address: host, family: isIP(host) }]
    return found.map(({ address, family: number }) => {
      const family = number === 6 ? 6 : 4
      if (this.#denied.check(address, family === 6 ? 'ipv6' : 'ipv4'))
        throw new TargetDenied(`${host} is in a network of the setting deniedNetworks`)
      return { address, family }
    })
  }

  #isAllowedHost(host: string): boolean {
    if (this.#allowedHosts.length === 0) return true
    return this.#allowedHosts.some(allowed =>
      allowed.startsWith('*.') ? host.endsWith(allowed.slice(1)) : host === allowed,
    )
  }
}
