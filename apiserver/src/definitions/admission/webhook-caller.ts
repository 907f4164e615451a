import { randomUUID } from 'node:crypto'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { JsonObject, ServedVersion } from '../../model/index.ts'
import { AdmissionError } from '../../registry/index.ts'
import { readTarget, WebhookCallError, type WebhookClient, type WebhookServices } from '../webhooks/index.ts'
import { type ReviewResponse, readResponse, reviewOf } from './admission-review.ts'
import type { AdmissionAttributes } from './attributes.ts'
import { internalFailure } from './denial.ts'
import type { Webhook } from './webhook.ts'

/** A phase of admission, as Kubernetes' metrics name it. */
export type WebhookType = 'admit' | 'validating'

/** Why a webhook refused a write, as Kubernetes' metrics name it. */
export type RejectionType = 'no_error' | 'calling_webhook_error' | 'apiserver_internal_error'

/** Counts the calls of webhooks. */
export interface WebhookObserver {
  called(call: {
    readonly name: string
    readonly type: WebhookType
    readonly operation: string
    readonly seconds: number
    readonly code: number
    /** Undefined if the write may go on. */
    readonly rejection: RejectionType | undefined
  }): void
  failedOpen(name: string, type: WebhookType): void
}

interface CallerParts {
  readonly client: Pick<WebhookClient, 'post'>
  readonly services: WebhookServices
  readonly observer: WebhookObserver
  /** Called with the failure of a webhook. */
  readonly failed: (webhook: Webhook, error: WebhookCallError) => void
  readonly clock?: Clock
}

/** The webhook denies the write. */
class Denial extends Error {
  readonly error: AdmissionError

  constructor(error: AdmissionError) {
    super(error.message)
    this.error = error
  }
}

/** Calls webhooks about writes, and treats their denials and failures as Kubernetes does. */
export class WebhookCaller {
  readonly #parts: CallerParts
  readonly #clock: Clock

  constructor(parts: CallerParts) {
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
  }

  /**
   * Calls a webhook. Returns undefined if it failed and its failures are ignored.
   * @param endsAt monotonic time at which the admission of the write ends
   * @throws AdmissionError if it denies the write, or fails; ApiError 400 in a dry run that it does not support, 504 if the time
   *   is over; the reason of the caller's signal
   */
  async call(
    webhook: Webhook,
    type: WebhookType,
    attributes: AdmissionAttributes,
    version: ServedVersion,
    endsAt: number,
  ): Promise<ReviewResponse | undefined> {
    const { observer, failed } = this.#parts
    const { operation } = attributes
    const { options } = attributes.request
    const { name } = webhook
    const since = this.#clock.monotonic()
    const called = (code: number, rejection?: RejectionType) =>
      observer.called({
        name,
        type,
        operation,
        code,
        rejection,
        seconds: (this.#clock.monotonic() - since) / 1000,
      })
    if (options.dryRun && !webhook.takesDryRuns) {
      called(0, 'apiserver_internal_error')
      throw new ApiError('BadRequest', `admission webhook ${JSON.stringify(name)} does not support dry run`)
    }
    const leftMs = endsAt - since
    if (leftMs <= 0) throw new ApiError('Timeout', 'request did not complete within requested timeout')
    try {
      const response = await this.#review(
        webhook,
        type,
        attributes,
        version,
        Math.min(webhook.timeoutMs, leftMs),
      )
      called(200)
      return response
    } catch (error) {
      if (error instanceof Denial) {
        called(error.error.code, 'no_error')
        throw error.error
      }
      if (!(error instanceof WebhookCallError)) throw error
      called(503, webhook.ignoresFailures ? undefined : 'calling_webhook_error')
      failed(webhook, error)
      if (!webhook.ignoresFailures)
        throw internalFailure(`failed calling webhook ${JSON.stringify(name)}: ${error.message}`, error)
      observer.failedOpen(name, type)
      return undefined
    }
  }

  async #review(
    webhook: Webhook,
    type: WebhookType,
    attributes: AdmissionAttributes,
    version: ServedVersion,
    timeoutMs: number,
  ): Promise<ReviewResponse> {
    const { reviewVersion, name, clientConfig } = webhook
    const { options } = attributes.request
    if (reviewVersion === undefined)
      throw new WebhookCallError('webhook does not accept known AdmissionReview versions (v1, v1beta1)')
    const uid = randomUUID()
    const review = await reviewOf(attributes, version, reviewVersion, uid)
    const signal = options.signal ?? options.whenGone?.()
    const document = await this.#post(clientConfig, review, timeoutMs, signal)
    const response = readResponse(document, reviewVersion, uid, type === 'admit')
    const { notes } = options
    for (const [key, value] of Object.entries(response.auditAnnotations))
      notes?.annotate(`${name}/${key}`, value)
    // As in Kubernetes, others are dropped: they could not be in a header as they are.
    for (const warning of response.warnings) if (!/\p{Cc}/u.test(warning)) notes?.warn(warning)
    if (!response.isAllowed) throw new Denial(denialOf(name, response.status))
    return response
  }

  async #post(
    clientConfig: Webhook['clientConfig'],
    review: JsonObject,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const { client, services } = this.#parts
    try {
      return await client.post(readTarget(clientConfig, services), review, { timeoutMs, signal })
    } catch (error) {
      if (!(error instanceof WebhookCallError)) throw error
      throw new WebhookCallError(`failed to call webhook: ${error.message}`, { cause: error })
    }
  }
}

/** Returns the denial of a webhook with its own status, as Kubernetes completes it. */
function denialOf(name: string, status: JsonObject = {}): AdmissionError {
  const by = `admission webhook ${JSON.stringify(name)} denied the request`
  const { message, reason, code, status: given, metadata, ...rest } = status
  const text = typeof message === 'string' && message !== '' ? message : reason
  const { kind: _kind, apiVersion: _apiVersion, ...others } = rest
  return new AdmissionError('Forbidden', {
    ...(typeof metadata === 'object' && metadata !== null && { metadata }),
    status: typeof given === 'string' && given !== '' && given !== 'Success' ? given : 'Failure',
    message: typeof text === 'string' && text !== '' ? `${by}: ${text}` : `${by} without explanation`,
    ...(typeof reason === 'string' && reason !== '' && { reason }),
    ...others,
    code: typeof code === 'number' && code >= 400 && code <= 599 ? code : 400,
  })
}
