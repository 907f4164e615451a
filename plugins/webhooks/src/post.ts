import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { type Clock, linkedSignal, TargetDeniedError, type TargetPolicy } from '@setpoint/controller-runtime'

/** Limits of a request. */
export const postDefaults = Object.freeze({
  /** Bytes of a response body that are read to keep the connection for the next request. Its content is ignored. */
  responseBytes: 64 * 1024,
  /** Milliseconds that an unused connection stays open. */
  keepAliveMs: 30_000,
  /** Characters of the reason of a failure. */
  reasonLength: 200,
})

interface PostRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** From the start of the request, with the resolution of the name, to the response headers. */
  readonly timeoutMs: number
}

/** `failure` says in a few words why the request was not accepted. */
export type PostResult = { readonly failure?: undefined } | { readonly failure: string }

/** Sends a request. @throws the signal's reason if it is or gets aborted; all other failures are results. */
export type Post = (request: PostRequest, signal: AbortSignal) => Promise<PostResult>

/**
 * Sends HTTP requests to the targets that the policy allows. Only a status from 200 to 299 is a success. Redirects are
 * not followed, since their target was not checked. No part of a response is ever shown: it may come from a service
 * that the author of the subscription must not read.
 */
export class HttpPost {
  readonly #policy: TargetPolicy
  readonly #clock: Clock
  readonly #http = new HttpAgent({ keepAlive: true, timeout: postDefaults.keepAliveMs })
  readonly #https = new HttpsAgent({ keepAlive: true, timeout: postDefaults.keepAliveMs })

  constructor({ policy, clock }: { policy: TargetPolicy; clock: Clock }) {
    this.#policy = policy
    this.#clock = clock
  }

  /** See `Post`. */
  readonly post: Post = async (request, signal) => {
    signal.throwIfAborted()
    const running = linkedSignal(signal)
    const cancel = this.#clock.setTimeout(() => running.abort(), request.timeoutMs)
    try {
      const status = await this.#send(request, running.signal)
      return status >= 200 && status <= 299 ? {} : { failure: `the receiver responded with ${status}` }
    } catch (error) {
      signal.throwIfAborted()
      if (running.signal.aborted) return { failure: `no response within ${request.timeoutMs / 1000} s` }
      return { failure: reasonOf(error) }
    } finally {
      cancel()
      running.dispose()
    }
  }

  /**
   * Returns the status of the response once its body has ended, has become too large, or was aborted: a connection is
   * in use until then.
   */
  async #send({ url, headers, body }: PostRequest, signal: AbortSignal): Promise<number> {
    const { protocol, hostname } = new URL(url)
    const lookup = await this.#policy.resolve(hostname, signal)
    return new Promise((resolve, reject) => {
      const options = {
        method: 'POST',
        headers: { ...headers, 'content-length': Buffer.byteLength(body) },
        lookup,
        signal,
      }
      const request =
        protocol === 'https:'
          ? httpsRequest(url, { ...options, agent: this.#https })
          : httpRequest(url, { ...options, agent: this.#http })
      let status: number | undefined
      request.on('error', error => (status === undefined ? reject(error) : resolve(status)))
      request.once('response', response => {
        status = response.statusCode ?? 0
        let bytes = 0
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > postDefaults.responseBytes) response.destroy()
        })
        response.on('error', () => {})
        response.once('close', () => resolve(status ?? 0))
      })
      request.end(body)
    })
  }
}

const failures: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  ENOTFOUND: 'the host name could not be found',
  EAI_AGAIN: 'the host name could not be resolved',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'the network cannot be reached',
  ETIMEDOUT: 'the connection timed out',
}

function reasonOf(error: unknown): string {
  if (error instanceof TargetDeniedError) return `denied: ${error.message}`
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const text = failures[code] ?? (error instanceof Error ? error.message : String(error))
  return text.replace(/\s+/g, ' ').trim().slice(0, postDefaults.reasonLength)
}
