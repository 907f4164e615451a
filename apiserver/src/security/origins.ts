import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { quote } from '@setpoint/controller-runtime/internal'

/**
 * Decides which pages may send requests, by the headers that browsers add. `Origin` is the site of the page. Browsers
 * omit it for images, scripts and links, and send `Sec-Fetch-Site`. Programs send neither.
 */
export interface Origins {
  /** @throws ApiError 403 */
  check(headers: IncomingHttpHeaders): void
}

/**
 * Allows the pages of this machine, on any port. In force while no authentication is configured.
 *
 * A foreign name that resolves to this machine (DNS rebinding) shows in `Host`. With a local `Origin`, `Sec-Fetch-Site`
 * is ignored: 127.0.0.1 and localhost are different sites.
 */
export class LocalOrigins implements Origins {
  check(headers: IncomingHttpHeaders): void {
    const { host, origin } = headers
    const onlyLocal = 'without authentication only local'
    if (host !== undefined && !localHostPattern.test(host))
      throw refused(`the Host ${quote(host)} is not local; ${onlyLocal} callers are allowed`)
    if (origin !== undefined && !localOriginPattern.test(origin))
      throw refused(`the Origin ${quote(origin)} is not local; ${onlyLocal} pages are allowed`)
    if (origin === undefined && headers['sec-fetch-site'] === 'cross-site')
      throw refused(`Sec-Fetch-Site is cross-site; ${onlyLocal} pages are allowed`)
  }
}

const localHost = String.raw`(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?`
const localHostPattern = new RegExp(`^${localHost}$`, 'i')
const localOriginPattern = new RegExp(`^https?://${localHost}$`, 'i')

/**
 * Allows the server's own pages and those of named origins.
 *
 * A page is the server's own if its origin has the host and port of the `Host` header. A server without TLS may be
 * behind a proxy that adds it, so its pages may have either scheme.
 */
export class NamedOrigins implements Origins {
  readonly #origins: ReadonlySet<string>
  /** The ends of host names, with the dot before them. */
  readonly #domains: readonly string[]
  readonly #ownSchemes: readonly string[]

  /** @param names origins as browsers send them, or `*.example.com` for the pages of every subdomain */
  constructor(names: readonly string[], { isSecure }: { readonly isSecure: boolean }) {
    this.#origins = new Set(names.filter(name => !name.startsWith('*')))
    this.#domains = names.filter(name => name.startsWith('*')).map(name => name.slice(1))
    this.#ownSchemes = isSecure ? ['https'] : ['https', 'http']
  }

  check(headers: IncomingHttpHeaders): void {
    const { origin } = headers
    if (origin === undefined) checkSite(headers)
    else if (!this.#origins.has(origin) && !this.#isOwn(origin, headers.host) && !this.#isBelow(origin))
      throw refused(
        `pages of the Origin ${quote(origin)} may not call this server; --allowed-origin names those that may`,
      )
  }

  #isOwn(origin: string, host: string | undefined): boolean {
    return (
      host !== undefined && this.#ownSchemes.some(scheme => origin === `${scheme}://${host.toLowerCase()}`)
    )
  }

  #isBelow(origin: string): boolean {
    const [, host] = /^https?:\/\/([a-z0-9.-]+)(:\d{1,5})?$/.exec(origin) ?? []
    return host !== undefined && this.#domains.some(domain => host.endsWith(domain))
  }
}

/**
 * Rejects images, scripts and forms of other pages: with them, browsers send client certificates. A link to a page of
 * the server is a navigation.
 */
function checkSite(headers: IncomingHttpHeaders): void {
  const site = headers['sec-fetch-site']
  if (site === undefined || site === 'same-origin' || site === 'none') return
  if (headers['sec-fetch-mode'] === 'navigate') return
  throw refused(`Sec-Fetch-Site is ${quote(site)}; pages of other sites call with CORS`)
}

function refused(message: string): ApiError {
  return new ApiError('Forbidden', message)
}
