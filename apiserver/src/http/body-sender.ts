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
   * Blocks that are compressed at once. Each takes a processor from the event loop, and one of libuv's four threads from token
   * checks and from the commits of the embedded store. More than three would wait for a thread, where callers take no turns.
   */
  compressions: Math.min(3, Math.max(1, availableParallelism() - 1)),
  /** Bytes that are copied together for one write. */
  blockBytes: 64 * 1024,
  /**
   * Written blocks that are kept for later bodies, 8 MiB: one for each response of a turn under load. Allocating one costs
   * page faults, which take an eighth of a page of 20 objects.
   */
  keptBlocks: 128,
})

/** Written blocks of `blockBytes`. */
const keptBlocks: Buffer[] = []

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
 * Guarantees: copies at most two blocks at a time (gzip holds another 300 KiB) and never changes the parts. Stops when the
 * client closes the connection. The connection can be reused after 'sent' and is destroyed otherwise. Never rejects.
 */
export async function sendBody(
  response: ServerResponse,
  parts: readonly Buffer[],
  { gzipFor }: SendOptions,
): Promise<SendOutcome> {
  const paced = new PacedResponse(response)
  const blocks = blocksOf(parts)
  try {
    if (gzipFor === undefined) for (const { bytes, memory } of blocks) await paced.write(bytes, memory)
    else for await (const bytes of compressed(blocks, gzipFor)) await paced.write(bytes)
    await paced.end()
    return 'sent'
  } catch {
    response.destroy()
    return 'client gone'
  }
}

/** Ends a response with a body of several parts, sent in one write. The headers must have been set. */
export function endWithParts(response: ServerResponse, parts: readonly Buffer[], length: number): void {
  // Node takes smaller buffers from a pool of its own.
  if (length < Buffer.poolSize / 2 || length > bodyDefaults.blockBytes) {
    response.end(Buffer.concat(parts, length))
    return
  }
  const memory = takeBlock()
  let filled = 0
  for (const part of parts) filled += part.copy(memory, filled)
  response.end(memory.subarray(0, filled), () => keep(memory))
}

/** A response whose writes wait for the client. */
class PacedResponse {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
    // 'close' follows. Without a listener, an error of the connection would end the process.
    response.on('error', () => {})
  }

  /**
   * @param memory the block of the chunk, which is kept for later bodies once the kernel has the chunk
   * @throws ClientGoneError
   */
  async write(chunk: Buffer, memory?: Buffer): Promise<void> {
    if (this.#response.destroyed) throw new ClientGoneError()
    const written = (error?: Error | null) => {
      if (!error) keep(memory)
    }
    if (!this.#response.write(chunk, written)) await this.#taken('drain')
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

/** A part of a body that is sent in one write. */
interface Block {
  readonly bytes: Buffer
  /** The memory of copied parts; undefined for a piece of a large part. */
  readonly memory: Buffer | undefined
}

/** Joins small parts into blocks of at most `blockBytes`, and cuts large parts into such blocks. */
function* blocksOf(parts: readonly Buffer[]): Generator<Block> {
  const { blockBytes } = bodyDefaults
  let memory: Buffer | undefined
  let filled = 0
  for (const part of parts) {
    if (memory !== undefined && filled + part.length > blockBytes) {
      yield { bytes: memory.subarray(0, filled), memory }
      memory = undefined
    }
    if (part.length >= blockBytes) {
      for (let at = 0; at < part.length; at += blockBytes)
        yield { bytes: part.subarray(at, at + blockBytes), memory: undefined }
      continue
    }
    if (memory === undefined) {
      memory = takeBlock()
      filled = 0
    }
    filled += part.copy(memory, filled)
  }
  if (memory !== undefined) yield { bytes: memory.subarray(0, filled), memory }
}

function takeBlock(): Buffer {
  return keptBlocks.pop() ?? Buffer.allocUnsafeSlow(bodyDefaults.blockBytes)
}

/** Keeps the memory of a written block for later bodies. */
function keep(memory: Buffer | undefined): void {
  if (memory !== undefined && keptBlocks.length < bodyDefaults.keptBlocks) keptBlocks.push(memory)
}

/** Compresses one block after another. While its reader waits for the client, others compress. */
async function* compressed(blocks: Iterable<Block>, caller: string): AsyncGenerator<Buffer> {
  const { gzipLevel, blockBytes } = bodyDefaults
  const zip = createGzip({ level: gzipLevel, chunkSize: blockBytes })
  let chunks: Buffer[] = []
  // The write that failed rejects.
  zip.on('error', () => {})
  zip.on('data', (chunk: Buffer) => chunks.push(chunk))
  try {
    for (const { bytes, memory } of blocks) {
      const release = await compressions.acquire(1, { caller })
      try {
        await written(zip, bytes)
      } finally {
        release()
      }
      keep(memory)
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
