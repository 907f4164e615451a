import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { type Clock, systemClock } from '@setpoint/controller-runtime'

export const bodyDefaults = Object.freeze({
  /** Bytes of a body that is sent in one write: pages and single objects. */
  wholeBytes: 128 * 1024,
  /** Bytes from which a body is compressed for a client that takes gzip (Kubernetes' threshold). */
  gzipBytes: 128 * 1024,
  /** zlib's fastest: JSON shrinks to a fifth already, and more would cost more time than it saves. */
  gzipLevel: 1,
  /** Bytes that are put together for one write of a large body, and all that is copied of it at a time. */
  blockBytes: 64 * 1024,
  /** Milliseconds that a client has to take one block; slower than about 1 KiB a second is no progress. */
  stallMs: 60_000,
})

/** How the sending of a body ended. */
export type SendOutcome = 'sent' | 'client gone' | 'too slow'

export interface SendOptions {
  readonly gzip: boolean
  readonly clock?: Clock
  readonly limits?: Pick<typeof bodyDefaults, 'blockBytes' | 'gzipLevel' | 'stallMs'>
}

/** The client has not taken a block in time, or has gone. */
class SendError extends Error {
  override readonly name = 'SendError'
  readonly outcome: SendOutcome

  constructor(outcome: SendOutcome) {
    super(outcome)
    this.outcome = outcome
  }
}

/**
 * Sends a large body at its client's pace, after its headers have been set, and ends the answer.
 *
 * Guarantees: of the body no more than a block or two are copied at a time (with gzip also what zlib holds, some
 * 300 KiB); the parts themselves are only read. A client that takes nothing for `stallMs` is cut off, and one that
 * goes away ends the work. After 'sent' the connection can be used again; after anything else it is gone.
 * Never rejects.
 */
export async function sendBody(
  response: ServerResponse,
  parts: readonly Buffer[],
  { gzip, clock = systemClock, limits = bodyDefaults }: SendOptions,
): Promise<SendOutcome> {
  const paced = new PacedResponse(response, clock, limits.stallMs)
  const blocks = blocksOf(parts, limits.blockBytes)
  try {
    if (gzip) {
      const zip = createGzip({ level: limits.gzipLevel, chunkSize: limits.blockBytes })
      await pipeline(blocks, zip, async zipped => {
        for await (const chunk of zipped) await paced.write(chunk)
      })
    } else for (const block of blocks) await paced.write(block)
    await paced.end()
    return 'sent'
  } catch (error) {
    response.destroy()
    return error instanceof SendError ? error.outcome : 'client gone'
  }
}

/** A response whose writes wait for the client, and not for ever. */
class PacedResponse {
  readonly #response: ServerResponse
  readonly #clock: Clock
  readonly #stallMs: number

  constructor(response: ServerResponse, clock: Clock, stallMs: number) {
    this.#response = response
    this.#clock = clock
    this.#stallMs = stallMs
    // What a broken connection says is heard as its close; unheard it would end the process.
    response.on('error', () => {})
  }

  /** @throws SendError */
  async write(chunk: Buffer): Promise<void> {
    if (this.#response.destroyed) throw new SendError('client gone')
    if (!this.#response.write(chunk)) await this.#taken('drain')
  }

  /** @throws SendError */
  async end(): Promise<void> {
    if (this.#response.destroyed) throw new SendError('client gone')
    const finished = this.#taken('finish')
    this.#response.end()
    await finished
  }

  #taken(event: 'drain' | 'finish'): Promise<void> {
    const response = this.#response
    return new Promise((resolve, reject) => {
      const stop = () => {
        cancel()
        response.off(event, onTaken)
        response.off('close', onClose)
      }
      const onTaken = () => {
        stop()
        resolve()
      }
      const onClose = () => {
        stop()
        reject(new SendError('client gone'))
      }
      const cancel = this.#clock.setTimeout(() => {
        stop()
        reject(new SendError('too slow'))
      }, this.#stallMs)
      response.on(event, onTaken)
      response.on('close', onClose)
    })
  }
}

/** The parts put together into blocks of about `blockBytes`: few writes of many small parts, small ones of large parts. */
function* blocksOf(parts: readonly Buffer[], blockBytes: number): Generator<Buffer> {
  let block: Buffer | undefined
  let filled = 0
  for (const part of parts) {
    if (block !== undefined && filled + part.length > blockBytes) {
      yield block.subarray(0, filled)
      block = undefined
    }
    if (part.length >= blockBytes) {
      for (let at = 0; at < part.length; at += blockBytes) yield part.subarray(at, at + blockBytes)
      continue
    }
    if (block === undefined) {
      block = Buffer.allocUnsafeSlow(blockBytes)
      filled = 0
    }
    filled += part.copy(block, filled)
  }
  if (block !== undefined) yield block.subarray(0, filled)
}
