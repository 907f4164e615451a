import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { echo } from '../model/index.ts'
import { requestLimits } from './api-request.ts'

/** Headers that may be as long as all headers together: tokens, cookies, and the groups of an impersonated user. */
const longHeaders: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'impersonate-group',
  'sec-websocket-protocol',
])

/** The same for the further attributes of an impersonated user. */
const longPrefix = 'impersonate-extra-'

/** Rejects long values before anything reads them. Values of a repeated header count together. @throws ApiError 400 */
export function checkHeaders(headers: IncomingHttpHeaders): void {
  const { headerValueBytes } = requestLimits
  for (const name in headers) {
    const length = headers[name]?.length ?? 0
    if (length > headerValueBytes && !longHeaders.has(name) && !name.startsWith(longPrefix))
      throw new ApiError('BadRequest', `the header ${echo(name)} is longer than ${headerValueBytes} bytes`)
  }
}
