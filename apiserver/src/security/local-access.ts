import { ApiError } from '@setpoint/controller-runtime/api'

/**
 * The rules while no authentication is configured: the server listens on loopback only, and answers only what a
 * program or a page of this machine asks. A foreign page that makes a browser call us shows itself by its Origin; one
 * whose name was pointed at this machine, by its Host.
 * @throws ApiError 403
 */
export function checkLocalAccess(headers: { host?: string | undefined; origin?: string | undefined }): void {
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
export const localUser = Object.freeze({ name: 'setpoint:local', groups: Object.freeze(['setpoint:admins']) })
