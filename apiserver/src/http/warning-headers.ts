import type { ApiResponse } from './api-request.ts'

export const warningDefaults = Object.freeze({
  /** Characters of one warning. */
  maxLength: 256,
  /** Characters of all warnings of a response (Kubernetes' limit): clients reject headers that are too large. */
  maxTotal: 4096,
})

/** Returns Warning headers. The last one counts the warnings that exceed the limit. */
export function warningHeaders(warnings: readonly string[]): string[] {
  const { maxLength, maxTotal } = warningDefaults
  const shown: string[] = []
  let length = 0
  for (const text of warnings) {
    // JSON escapes all other control characters.
    const value = JSON.stringify(text.replaceAll('\u007f', '').slice(0, maxLength))
    length += value.length
    if (length > maxTotal) break
    shown.push(value)
  }
  const left = warnings.length - shown.length
  if (left > 0) shown.push(JSON.stringify(`and ${left} more`))
  return shown.map(value => `299 - ${value}`)
}

/** Adds a Warning header to the response. */
export function withWarning({ headers, ...response }: ApiResponse, text: string): ApiResponse {
  const warning = [...warningHeaders([text]), ...[headers.warning ?? []].flat()]
  return { ...response, headers: { ...headers, warning } }
}
