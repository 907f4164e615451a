import type { ApiResponse } from './api-request.ts'

export const warningDefaults = Object.freeze({
  /** Characters of one warning, if all of them together are too long. */
  maxLength: 256,
  /** Characters of all warnings of a response (Kubernetes' limit): clients reject headers that are too large. */
  maxTotal: 4096,
})

/** Returns Warning headers, each text once. The last one counts the warnings that exceed the limit. */
export function warningHeaders(warnings: readonly string[]): string[] {
  const { maxLength, maxTotal } = warningDefaults
  const texts = [...new Set(warnings)].filter(text => text !== '')
  const isLong = texts.reduce((sum, { length }) => sum + length, 0) > maxTotal
  const shown: string[] = []
  let length = 0
  for (const text of texts) {
    // JSON escapes all other control characters.
    const value = JSON.stringify(text.replaceAll('\u007f', '').slice(0, isLong ? maxLength : maxTotal))
    length += value.length
    if (length > maxTotal + 2) break
    shown.push(value)
  }
  const left = texts.length - shown.length
  if (left > 0) shown.push(JSON.stringify(`and ${left} more`))
  return shown.map(value => `299 - ${value}`)
}

/** Adds a Warning header to the response. */
export function withWarning({ headers, ...response }: ApiResponse, text: string): ApiResponse {
  const warning = [...warningHeaders([text]), ...[headers.warning ?? []].flat()]
  return { ...response, headers: { ...headers, warning } }
}

/** Adds Warning headers to the response. */
export function withWarnings(response: ApiResponse, texts: readonly string[]): ApiResponse {
  if (texts.length === 0) return response
  const { headers, ...rest } = response
  const warning = [...[headers.warning ?? []].flat(), ...warningHeaders(texts)]
  return { ...rest, headers: { ...headers, warning } }
}
