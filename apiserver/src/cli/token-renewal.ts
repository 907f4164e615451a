import { type Clock, type Logger, sleep, systemClock } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { Backoff } from '@setpoint/controller-runtime/internal'

export const tokenRenewalDefaults = Object.freeze({
  /** The part of its life until a token is replaced, as by the kubelet. The rest is for outages of the server. */
  renewAt: 0.8,
  /** Largest random reduction of that time, as a part of it, so that processes do not renew their tokens together. */
  jitter: 0.1,
  /** Milliseconds of the longest first pause after a failure. The bound doubles up to `maxRetryMs`. */
  retryMs: 1_000,
  maxRetryMs: 30_000,
})

/** A token and how long it is valid, counted from its request. */
export interface IssuedToken {
  readonly token: string
  readonly lifeMs: number
}

interface TokenRenewal {
  request(signal: AbortSignal): Promise<IssuedToken>
  /** Stores the token for its readers. */
  write(token: string): Promise<void>
  readonly log: Logger
  readonly clock?: Clock
  /** Returns a number in [0, 1). Default `Math.random`. */
  readonly random?: () => number
}

/**
 * Requests and writes tokens until the signal is aborted. Every failure is logged and retried: roles and accounts may
 * be created later. Never rejects.
 */
export async function renewToken(
  { request, write, log, clock = systemClock, random = Math.random }: TokenRenewal,
  signal: AbortSignal,
): Promise<void> {
  const { renewAt, jitter, retryMs: baseMs, maxRetryMs: maxMs } = tokenRenewalDefaults
  const backoff = new Backoff({ baseMs, maxMs, random })
  while (!signal.aborted) {
    let delayMs: number
    const askedAt = clock.monotonic()
    try {
      const { token, lifeMs } = await request(signal)
      await write(token)
      backoff.reset()
      delayMs = askedAt + lifeMs * renewAt * (1 - jitter * random()) - clock.monotonic()
      log.info({ lifeSeconds: lifeMs / 1000 }, 'wrote a new token')
    } catch (error) {
      if (signal.aborted) return
      delayMs = backoff.next()
      log.warn({ error: errorMessage(error), delayMs }, 'failed to renew the token, retrying')
    }
    await sleep(clock, delayMs, signal).catch(() => {})
  }
}
