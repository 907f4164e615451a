import { quote } from '../model/index.ts'
import { badRequest } from '../registry/index.ts'

/**
 * Parses a boolean parameter. Returns undefined if it is missing. As in Kubernetes, case does not matter, and a parameter
 * without a value (`?watch`) is true. @throws ApiError 400
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
