import { ApiError, type StatusReason, statusReasons } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'
import { metaName, refTo } from './names.ts'

/** The responses to errors by their names in `components`, one for each HTTP status code: `Status409`. */
export const errorResponses: JsonObject = Object.fromEntries(
  [...byCode()].map(([code, reasons]) => [
    `Status${code}`,
    {
      description: reasons.map(reason => `${reason}: ${statusReasons[reason].meaning}`).join(' '),
      content: {
        'application/json': {
          schema: refTo('schemas', metaName('Status')),
          examples: Object.fromEntries(reasons.map(reason => [reason, { value: exampleOf(reason) }])),
        },
      },
    },
  ]),
)

/** The errors of every request. */
const always = [401, 403, 404, 406, 429, 500, 503]

/** Returns the error responses of an operation: those of every request, and others by code. */
export function errorRefs(...codes: readonly number[]): JsonObject {
  return Object.fromEntries(
    [...always, ...codes]
      .sort((a, b) => a - b)
      .map(code => [String(code), refTo('responses', `Status${code}`)]),
  )
}

function byCode(): Map<number, StatusReason[]> {
  const codes = new Map<number, StatusReason[]>()
  for (const reason of Object.keys(statusReasons) as StatusReason[]) {
    const { code } = statusReasons[reason]
    codes.set(code, [...(codes.get(code) ?? []), reason])
  }
  return codes
}

function exampleOf(reason: StatusReason): object {
  const details = statusDetailsOf(reason)
  return new ApiError(reason, statusReasons[reason].meaning, details).toStatus()
}

function statusDetailsOf(reason: StatusReason) {
  if (reason === 'Invalid')
    return { causes: [{ reason: 'FieldValueRequired', message: 'is required', field: 'spec.email' }] }
  if (reason === 'TooManyRequests' || reason === 'ServiceUnavailable') return { retryAfterSeconds: 5 }
  return undefined
}
