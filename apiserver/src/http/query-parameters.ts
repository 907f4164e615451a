import { quote } from '../model/index.ts'
import { badRequest } from '../registry/index.ts'

/**
 * Parses a boolean parameter. Returns undefined if it is missing. As in Kubernetes, case does not matter, and a
 * parameter without a value (`?watch`) is true. @throws ApiError 400
 */
export function readBoolean(query: URLSearchParams, parameter: string): boolean | undefined {
  const value = query.get(parameter)
  switch (value?.toLowerCase()) {
    case undefined:
      return undefined
    case '':
    case 'true':
    case '1':
      return true
    case 'false':
    case '0':
      return false
    default:
      throw badRequest(`${parameter} ${quote(value)} is not true or false`)
  }
}

/** What Go's time.ParseDuration accepts. */
const goDuration = /^[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/

/**
 * Checks the parameter `timeout`, which Kubernetes' clients send with every request if they have one
 * (`WithRequestDeadline`). A valid one changes nothing: each wait of a request has a bound of its own, and the client
 * that leaves ends it.
 * @throws ApiError 400
 */
export function checkTimeout(query: URLSearchParams): void {
  const value = query.get('timeout')
  if (value !== null && value !== '' && !goDuration.test(value))
    throw badRequest(`invalid timeout specified in the request URL - time: invalid duration ${quote(value)}`)
}
