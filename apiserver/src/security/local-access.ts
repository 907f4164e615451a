import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { type Access, builtInGroups, type Identity } from './access.ts'

/** Grants everything to every caller on this machine: the rule while no authentication is configured. */
export class LocalAccess implements Access {
  checkCaller(headers: IncomingHttpHeaders): void {
    checkLocalAccess(headers)
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
 * Accepts programs and pages of this machine only. A browser names a foreign page in `Origin`. A page whose name
 * resolves to this machine shows in `Host`. For images, scripts and links browsers send no Origin, but `Sec-Fetch-Site`.
 * With a local Origin that header may be `cross-site`: 127.0.0.1 and localhost are two sites.
 * @throws ApiError 403
 */
function checkLocalAccess(headers: IncomingHttpHeaders): void {
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
  if (origin === undefined && headers['sec-fetch-site'] === 'cross-site') {
    throw new ApiError(
      'Forbidden',
      'without authentication only local pages are served, and the request comes from a page of another site (Sec-Fetch-Site)',
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

/** The identity of all callers without authentication. */
const localIdentity: Identity = Object.freeze({
  user: Object.freeze({ name: 'setpoint:local', groups: Object.freeze([builtInGroups.admins]) }),
  credential: undefined,
})
