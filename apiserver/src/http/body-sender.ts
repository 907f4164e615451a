import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'

export const bodyDefaults = Object.freeze({
  /** Bytes of a body that is sent in one write: pages and single objects. */
  wholeBytes: 128 * 1024,
  /** Bytes from which a body is compressed for a client that takes gzip (Kubernetes' threshold). */
  gzipBytes: 128 * 1024,
  /** zlib's fastest: JSON shrinks to a fifth already, and more would cost more time than it saves. */
  gzipLevel: 1,
  /** Bytes that are put together for one write of a large body, and all that is copied of it at a time. */
  blockBytes: 64 * 1024,
})

/** How the sending of a body ended. */
export type SendOutcome = 'sent' | 'client gone'

export interface SendOptions {
  readonly gzip: boolean
}

/** The client has gone, or was cut off because it took nothing. */
class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError'
}

/**
 * Sends a large body at its client's pace, after its headers have been set, and ends the answer.
 *
 * Guarantees: of the body no more than a block or two are copied at a time (with gzip also what zlib holds, some
 * 300 KiB); the parts themselves are only read. A client that goes away ends the work. After 'sent' the connection can be
 * used again; after anything else it is gone. Never rejects.
 */
export async function sendBody(
  response: ServerResponse,
  parts: readonly Buffer[],
  { gzip }: SendOptions,
): Promise<SendOutcome> {
  const paced = new PacedResponse(response)
  const blocks = blocksOf(parts, bodyDefaults.blockBytes)
  try {
    if (gzip) {
      const zip = createGzip({ level: bodyDefaults.gzipLevel, chunkSize: bodyDefaults.blockBytes })
      await pipeline(blocks, zip, async zipped => {
        for await (const chunk of zipped) await paced.write(chunk)
      })
    } else for (const block of blocks) await paced.write(block)
    await paced.end()
    return 'sent'
  } catch {
    response.destroy()
    return 'client gone'
  }
}

/** A response whose writes wait for the client. */
class PacedResponse {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
    // What a broken connection says is heard as its close; unheard it would end the process.
    response.on('error', () => {})
  }

  /** @throws ClientGoneError */
  async write(chunk: Buffer): Promise<void> {
    if (this.#response.destroyed) throw new ClientGoneError()
    if (!this.#response.write(chunk)) await this.#taken('drain')
  }

  /** @throws ClientGoneError */
  async end(): Promise<void> {
    if (this.#response.destroyed) throw new ClientGoneError()
    const finished = this.#taken('finish')
    this.#response.end()
    await finished
  }

  #taken(event: 'drain' | 'finish'): Promise<void> {
    const response = this.#response
    return new Promise((resolve, reject) => {
      const stop = () => {
        response.off(event, onTaken)
        response.off('close', onClose)
      }
      const onTaken = () => {
        stop()
        resolve()
      }
      const onClose = () => {
        stop()
        reject(new ClientGoneError())
      }
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
