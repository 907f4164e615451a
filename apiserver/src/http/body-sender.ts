import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { availableParallelism } from 'node:os'
import { createGzip, type Gzip } from 'node:zlib'
import { Semaphore } from '../scheduling/index.ts'

export const bodyDefaults = Object.freeze({
  /** Bytes of the largest body that is sent in one write: pages and single objects. */
  wholeBytes: 128 * 1024,
  /** Bytes of the smallest body that is compressed for a client that accepts gzip (Kubernetes' threshold). */
  gzipBytes: 128 * 1024,
  /** zlib's fastest. It shrinks JSON to a fifth; higher levels cost more time than they save. */
  gzipLevel: 1,
  /**
   * Blocks that are compressed at once. Each occupies a processor that the event loop could use, and one of libuv's
   * four threads, which verify tokens and commit to the embedded store. More than three would wait for a thread, where
   * callers take no turns.
   */
  compressions: Math.min(3, Math.max(1, availableParallelism() - 1)),
  /** Bytes that are copied together for one write. */
  blockBytes: 64 * 1024,
})

/** Whether a body was sent in full. */
export type SendOutcome = 'sent' | 'client gone'

interface SendOptions {
  /** Compresses the body for this caller. Callers take turns at it. Undefined: does not compress. */
  readonly gzipFor: string | undefined
}

const compressions = new Semaphore('compressions', {
  holders: bodyDefaults.compressions,
  holdersPerCaller: Infinity,
  weight: Infinity,
  weightPerCaller: Infinity,
  // Each response waits with one block, and responses are bounded already.
  waiting: Infinity,
  waitingPerCaller: Infinity,
})

/** The client closed the connection, or was disconnected because it read nothing. */
class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError'
}

/**
 * Sends a large body at its client's pace and ends the response. The headers must have been set.
 *
 * Guarantees: copies at most two blocks at a time (gzip holds another 300 KiB) and never changes the parts. Stops when
 * the client closes the connection. The connection can be reused after 'sent' and is destroyed otherwise. Never
 * rejects.
 */
export async function sendBody(
  response: ServerResponse,
  parts: readonly Buffer[],
  { gzipFor }: SendOptions,
): Promise<SendOutcome> {
  const paced = new PacedResponse(response)
  const blocks = blocksOf(parts)
  try {
    if (gzipFor === undefined) for (const bytes of blocks) await paced.write(bytes)
    else for await (const bytes of compressed(blocks, gzipFor)) await paced.write(bytes)
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
    // 'close' follows. Without a listener, an error of the connection would end the process.
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

/** Joins small parts into blocks of at most `blockBytes`, and cuts large parts into such blocks. */
function* blocksOf(parts: readonly Buffer[]): Generator<Buffer> {
  const { blockBytes } = bodyDefaults
  let small: Buffer[] = []
  let length = 0
  for (const part of parts) {
    if (length > 0 && length + part.length > blockBytes) {
      yield Buffer.concat(small, length)
      small = []
      length = 0
    }
    if (part.length >= blockBytes) {
      for (let at = 0; at < part.length; at += blockBytes) yield part.subarray(at, at + blockBytes)
      continue
    }
    small.push(part)
    length += part.length
  }
  if (length > 0) yield Buffer.concat(small, length)
}

/** Compresses one block after another. While its reader waits for the client, others compress. */
async function* compressed(blocks: Iterable<Buffer>, caller: string): AsyncGenerator<Buffer> {
  const { gzipLevel, blockBytes } = bodyDefaults
  const zip = createGzip({ level: gzipLevel, chunkSize: blockBytes })
  let chunks: Buffer[] = []
  // The write that failed rejects.
  zip.on('error', () => {})
  zip.on('data', (chunk: Buffer) => chunks.push(chunk))
  try {
    for (const bytes of blocks) {
      const release = await compressions.acquire(1, { caller })
      try {
        await written(zip, bytes)
      } finally {
        release()
      }
      yield* chunks
      chunks = []
    }
    zip.end()
    await once(zip, 'end')
    yield* chunks
  } finally {
    zip.destroy()
  }
}

function written(zip: Gzip, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    zip.write(bytes, error => (error ? reject(error) : resolve()))
  })
}
