import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { type Access, builtInGroups, type Identity } from './access.ts'

/** Whoever is on this machine may do everything: the rule as long as nobody has to say who he is. */
export class LocalAccess implements Access {
  checkCaller(headers: IncomingHttpHeaders): void {
    checkLocalAccess({ host: headers.host, origin: headers.origin })
  }
  identify(headers: IncomingHttpHeaders): Identity {
    this.checkCaller(headers)
    return localIdentity
  }
  onRevoked(): () => void {
    return () => {}
  }
  close(): void {}
}

/**
 * The rules while no authentication is configured: the server listens on loopback only, and answers only what a
 * program or a page of this machine asks. A foreign page that makes a browser call us shows itself by its Origin; one
 * whose name was pointed at this machine, by its Host.
 * @throws ApiError 403
 */
function checkLocalAccess(headers: { host?: string | undefined; origin?: string | undefined }): void {
  const { host, origin } = headers
  if (host !== undefined && !isLocalHost(host)) {
    throw new ApiError(
      'Forbidden',
      `without authentication only local callers are served, and the Host ${JSON.stringify(host)} is not local`,
    )
  }
  if (origin !== undefined && !isLocalOrigin(origin)) {
    throw new ApiError(
      'Forbidden',
      `without authentication only local pages are served, and the Origin ${JSON.stringify(origin)} is not local`,
    )
  }
}

const localHost = String.raw`(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?`
const localHostPattern = new RegExp(`^${localHost}$`, 'i')
const localOriginPattern = new RegExp(`^https?://${localHost}$`, 'i')

function isLocalHost(host: string): boolean {
  return localHostPattern.test(host)
}

function isLocalOrigin(origin: string): boolean {
  return localOriginPattern.test(origin)
}

/** Who a caller is while nobody has to say so. */
const localIdentity: Identity = Object.freeze({
  user: Object.freeze({ name: 'setpoint:local', groups: Object.freeze([builtInGroups.admins]) }),
  credential: undefined,
})
