import { get } from 'node:https'
import { errorMessage } from '@setpoint/controller-runtime/api'

export const fetchJsonDefaults = Object.freeze({
  /** Milliseconds for a whole response. */
  timeoutMs: 5_000,
  /** Bytes of the largest response: key sets have a few KiB. */
  maxBytes: 1024 * 1024,
})

/**
 * Fetches a JSON document over HTTPS. Follows no redirects.
 * @param ca CA certificates (PEM) instead of those of the system
 * @throws Error that names the URL, for any other outcome
 */
export async function fetchJson(url: string, ca: string | undefined): Promise<unknown> {
  const { timeoutMs } = fetchJsonDefaults
  try {
    return await request(url, ca, AbortSignal.timeout(timeoutMs))
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'AbortError'
    const why = isLate ? `no response within ${timeoutMs / 1000} s` : errorMessage(error)
    throw new Error(`failed to fetch ${url}: ${why}`, { cause: error })
  }
}

function request(url: string, ca: string | undefined, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = { accept: 'application/json' }
    const sent = get(url, { headers, agent: false, signal, ca }, response => {
      const parts: Buffer[] = []
      let bytes = 0
      response.on('error', reject)
      response.on('data', (part: Buffer) => {
        parts.push(part)
        bytes += part.length
        if (bytes > fetchJsonDefaults.maxBytes) response.destroy(new Error('the response is too large'))
      })
      response.on('end', () => {
        if (response.statusCode !== 200) reject(new Error(`the response is ${response.statusCode}`))
        else resolve(Buffer.concat(parts).toString())
      })
    })
    sent.on('error', reject)
  }).then(text => JSON.parse(String(text)))
}
