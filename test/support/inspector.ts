import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'

/** Reads the memory of any Node process through its inspector. */
export class Inspected {
  /** Arguments for the process's command line. */
  readonly nodeOptions: readonly string[]
  readonly #port: number

  private constructor(port: number) {
    this.#port = port
    // Over HTTP only, not on standard error.
    this.nodeOptions = [`--inspect=127.0.0.1:${port}`, '--inspect-publish-uid=http']
  }

  static async reserve(): Promise<Inspected> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    server.close()
    if (address === null || typeof address === 'string') throw new Error('no port')
    return new Inspected(address.port)
  }

  /**
   * Returns the bytes of the JavaScript heap in use after a garbage collection.
   * @throws Error if the process does not respond before the signal
   */
  async heapBytes(signal: AbortSignal = AbortSignal.timeout(60_000)): Promise<number> {
    const list = await (await fetch(`http://127.0.0.1:${this.#port}/json/list`, { signal })).text()
    const address = /"webSocketDebuggerUrl": "([^"]+)"/.exec(list)?.[1]
    if (address === undefined) throw new Error('the process cannot be inspected')
    const session = new WebSocket(address)
    try {
      await once(session, 'open', { signal })
      const ask = async (id: number, method: string): Promise<string> => {
        session.send(JSON.stringify({ id, method }))
        const [answer] = await once(session, 'message', { signal })
        return String(answer)
      }
      // A second collection frees objects that the first one made unreachable.
      await ask(1, 'HeapProfiler.collectGarbage')
      await ask(2, 'HeapProfiler.collectGarbage')
      return Number(/"usedSize":(\d+)/.exec(await ask(3, 'Runtime.getHeapUsage'))?.[1])
    } finally {
      session.terminate()
    }
  }
}

/**
 * Returns the anonymous memory of a process on Linux. The kernel can reclaim the pages of mapped files, as LMDB's are.
 */
export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
}

/** Returns the memory of a process at rest: freed pages are returned after a moment. */
export async function restingMemory(
  pid: number,
  inspected: Inspected,
): Promise<{ heap: number; resident: number }> {
  await sleep(500)
  const heap = await inspected.heapBytes()
  await sleep(500)
  return { heap, resident: await residentBytes(pid) }
}
