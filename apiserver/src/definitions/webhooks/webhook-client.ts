import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest } from 'node:https'
import { checkServerIdentity, createSecureContext, type PeerCertificate, type SecureContext } from 'node:tls'
import {
  type Clock,
  linkedSignal,
  systemClock,
  TargetDeniedError,
  type TargetPolicy,
} from '@setpoint/controller-runtime'
import { decodeDocument } from '../../model/index.ts'
import { problemOf, WebhookCallError } from './webhook-error.ts'
import { fingerprintOf, type WebhookTarget } from './webhook-target.ts'

export const webhookDefaults = Object.freeze({
  /** Bytes of a response: those of the largest body that the server takes. */
  responseBytes: 3 * 1024 * 1024,
  /** Connections to one webhook. Further requests wait for one, within their time. */
  connections: 100,
  /** Milliseconds that an unused connection stays open. */
  keepAliveMs: 30_000,
  /** Bundles of certificates that are kept ready. */
  bundles: 100,
})

interface PostOptions {
  /** Milliseconds from the start, with the resolution of the name, to the end of the response. */
  readonly timeoutMs: number
  /** Bytes of the response. Default: `webhookDefaults.responseBytes` */
  readonly maxBytes?: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Calls webhooks of Kubernetes' form: JSON over HTTPS. The certificate of a webhook is always verified, redirects are not
 * followed, and responses are bounded. Requests go where the policy allows, and to the services that the operator has named.
 */
export class WebhookClient {
  readonly #policy: Pick<TargetPolicy, 'resolve'>
  readonly #clock: Clock
  readonly #agent = new Agent({
    keepAlive: true,
    maxSockets: webhookDefaults.connections,
    timeout: webhookDefaults.keepAliveMs,
  })
  /** By fingerprint, the most recently used last. */
  readonly #contexts = new Map<string, SecureContext>()

  constructor({ policy, clock = systemClock }: { policy: Pick<TargetPolicy, 'resolve'>; clock?: Clock }) {
    this.#policy = policy
    this.#clock = clock
  }

  /**
   * Sends a document and returns that of the response.
   * @throws WebhookCallError if the webhook cannot be called, does not respond in time or with a status other than 2xx, or
   *   with something else than JSON; the signal's reason if it is or gets aborted
   */
  async post(
    target: WebhookTarget,
    body: unknown,
    { timeoutMs, maxBytes = webhookDefaults.responseBytes, signal }: PostOptions,
  ): Promise<unknown> {
    signal?.throwIfAborted()
    const running = linkedSignal(signal)
    const cancel = this.#clock.setTimeout(() => running.abort(), timeoutMs)
    try {
      const bytes = await this.#send(target, JSON.stringify(body), timeoutMs, maxBytes, running.signal)
      return decode(bytes)
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof ResponseError) throw new WebhookCallError(error.message, { cause: error })
      const problem = running.signal.aborted ? 'context deadline exceeded' : reasonOf(error)
      throw new WebhookCallError(`Post ${JSON.stringify(addressOf(target.url, timeoutMs))}: ${problem}`, {
        cause: error,
      })
    } finally {
      cancel()
      running.dispose()
    }
  }

  async #send(
    target: WebhookTarget,
    body: string,
    timeoutMs: number,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Buffer> {
    const { endpoint, caBundle, serviceName, isTrusted } = target
    const lookup = isTrusted ? undefined : await this.#policy.resolve(endpoint.hostname, signal)
    const request = httpsRequest(addressOf(endpoint, timeoutMs), {
      method: 'POST',
      agent: this.#agent,
      signal,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, */*',
        'content-length': Buffer.byteLength(body),
      },
      ...(lookup && { lookup }),
      // The agent tells connections apart by the bundle.
      ...(caBundle !== undefined && { ca: caBundle, secureContext: this.#contextOf(caBundle) }),
      ...(serviceName !== undefined && {
        servername: serviceName,
        checkServerIdentity: (_host: string, certificate: PeerCertificate) =>
          checkServerIdentity(serviceName, certificate) &&
          checkServerIdentity(endpoint.hostname.replace(/^\[|\]$/g, ''), certificate),
      }),
    })
    const response = await responseOf(request, body)
    const status = response.statusCode ?? 0
    if (status < 200 || status > 299) {
      request.destroy()
      throw new ResponseError(`the webhook responded with status ${status}`)
    }
    return readAll(response, maxBytes)
  }

  /** @throws Error for a bundle that is not PEM */
  #contextOf(caBundle: string): SecureContext {
    const key = fingerprintOf(caBundle)
    const context = this.#contexts.get(key) ?? createSecureContext({ ca: caBundle })
    this.#contexts.delete(key)
    this.#contexts.set(key, context)
    const [oldest] = this.#contexts.keys()
    if (this.#contexts.size > webhookDefaults.bundles && oldest !== undefined) this.#contexts.delete(oldest)
    return context
  }
}

/** The webhook has responded, but not as it must. */
class ResponseError extends Error {}

/** The address with the time that the caller waits, as Kubernetes tells it. */
function addressOf(url: URL, timeoutMs: number): string {
  const address = new URL(url)
  address.searchParams.set('timeout', `${Math.ceil(timeoutMs / 1000)}s`)
  return address.href
}

function responseOf(request: ClientRequest, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.once('response', resolve)
    request.end(body)
  })
}

async function readAll(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response) {
    chunks.push(chunk)
    length += chunk.length
    if (length > maxBytes) {
      response.destroy()
      throw new ResponseError(`the response of the webhook has more than ${maxBytes} bytes`)
    }
  }
  return Buffer.concat(chunks)
}

/** No part of the response is shown: whoever makes a webhook fail must not read what the webhook's host serves. */
function decode(bytes: Buffer): unknown {
  try {
    return decodeDocument(bytes, 'json')
  } catch (error) {
    throw new ResponseError('the response of the webhook is not JSON', { cause: error })
  }
}

function reasonOf(error: unknown): string {
  return error instanceof TargetDeniedError ? `not allowed: ${error.message}` : problemOf(error)
}
