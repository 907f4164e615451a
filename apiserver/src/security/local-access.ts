import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { type Access, builtInGroups, type CallerRequest, type Identity } from './access.ts'

/** Allows everything to callers on this machine. In force while no authentication is configured. */
export class LocalAccess implements Access {
  checkCaller({ headers }: CallerRequest): void {
    checkLocalAccess(headers)
  }
  identify(request: CallerRequest): Identity {
    this.checkCaller(request)
    return localIdentity
  }
  onRevoked(): () => void {
    return () => {}
  }
  close(): void {}
}

/**
 * Rejects requests from pages of other sites. `Origin` is the site of the page. For images, scripts and links browsers
 * omit it and send `Sec-Fetch-Site`. A foreign name that resolves to this machine (DNS rebinding) shows in `Host`.
 *
 * With a local `Origin`, `Sec-Fetch-Site` is ignored: 127.0.0.1 and localhost are different sites.
 * @throws ApiError 403
 */
function checkLocalAccess(headers: IncomingHttpHeaders): void {
  const { host, origin } = headers
  if (host !== undefined && !isLocalHost(host)) {
    throw new ApiError(
      'Forbidden',
      `the Host ${JSON.stringify(host)} is not local; without authentication only local callers are allowed`,
    )
  }
  if (origin !== undefined && !isLocalOrigin(origin)) {
    throw new ApiError(
      'Forbidden',
      `the Origin ${JSON.stringify(origin)} is not local; without authentication only local pages are allowed`,
    )
  }
  if (origin === undefined && headers['sec-fetch-site'] === 'cross-site') {
    throw new ApiError(
      'Forbidden',
      'Sec-Fetch-Site is cross-site; without authentication only local pages are allowed',
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
