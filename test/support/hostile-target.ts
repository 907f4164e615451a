import http from 'node:http'
import type { HostileRequest } from './hostile-requests.ts'
import type { TurnMeter } from './turn-meter.ts'

/**
 * Milliseconds of processor time that a turn of the event loop may take, on a machine that is not slower than usual.
 */
const turnMs = 50

/** Milliseconds of processor time for the text below on the machine that the bounds of the product were measured on. */
const referenceMs = 10
const referenceText = JSON.stringify(Array.from({ length: 20_000 }, (_, n) => ({ [`field${n}`]: n })))

/** Returns the bound on this machine now: it may be a slower one, or share its caches and cores with others. */
export function longestAllowedMs(): number {
  const tries = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage()
    JSON.parse(referenceText)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  })
  return turnMs * Math.max(1, Math.min(...tries) / referenceMs)
}

/** Requests that are measured together. Those of a batch with a longer turn are measured one by one. */
const batchSize = 20

/**
 * Times that a request must be slow: it may be the first to need compiled code, or meet collections of garbage while
 * other tests fill the caches of the processor.
 */
const attempts = 20

/** Compilations and collections never take this long, so that one attempt is enough. */
const certainMs = 1000

/** Milliseconds after which a server counts as stopped by a request. */
const patienceMs = 60_000

/** Bytes of a refusal: a hundred violations with their echoed texts. */
const refusalBytes = 128 * 1024

/** A server that gets hostile requests, one after the other, while its turns are measured. */
export class HostileTarget {
  readonly #port: number
  readonly #meter: TurnMeter
  readonly #mayReset: boolean
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 })

  /** @param mayReset true for a server that leaves malformed HTTP to Node, which resets the connection */
  constructor(port: number, meter: TurnMeter, { mayReset = false } = {}) {
    this.#port = port
    this.#meter = meter
    this.#mayReset = mayReset
  }

  close(): void {
    this.#agent.destroy()
    this.#meter.close()
  }

  /** Returns what is wrong with the first requests: turns that take too long, failures, and long refusals. */
  async problemsOf(requests: Iterable<HostileRequest>): Promise<string[]> {
    for (const batch of batchesOf(requests)) {
      const problems: string[] = []
      let isSlow = false
      const ms = await this.#meter.longestTurnMs(async () => {
        for (const request of batch) {
          const sentAt = performance.now()
          const problem = await this.#send(request)
          if (problem !== undefined) problems.push(`${request.title}: ${problem}`)
          // The next one may take minutes, too.
          isSlow = performance.now() - sentAt > certainMs
          if (isSlow) break
        }
      })
      if (isSlow || ms > turnMs) problems.push(...(await this.#slowOf(batch)))
      if (problems.length > 0) return problems
    }
    return []
  }

  /** Returns the longest turn in milliseconds while a piece of work is done. */
  async longestTurnMs(work: () => Promise<unknown>): Promise<number> {
    let least = await this.#meter.longestTurnMs(work)
    for (let n = 1; n < attempts && least > turnMs && least < certainMs; n++)
      least = Math.min(least, await this.#meter.longestTurnMs(work))
    return least
  }

  async #slowOf(batch: readonly HostileRequest[]): Promise<string[]> {
    const slow: string[] = []
    for (const request of batch) {
      const ms = await this.longestTurnMs(() => this.#send(request))
      if (ms > turnMs && ms > longestAllowedMs())
        slow.push(`${request.title}: a turn took ${Math.round(ms)} ms`)
      if (ms > certainMs) break
    }
    return slow
  }

  /** Returns what is wrong with the response. */
  #send(request: HostileRequest): Promise<string | undefined> {
    const { title, method, target, headers, body, isEndless = false } = request
    return new Promise((resolve, reject) => {
      const sent = http.request({
        ...{ host: '127.0.0.1', port: this.#port, agent: this.#agent, method, path: target },
        // The response to a handshake has one of the sub-protocols, which can be long.
        ...{ headers, maxHeaderSize: 256 * 1024, timeout: patienceMs },
      })
      sent.on('response', response => {
        const { statusCode: status = 0 } = response
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part
        })
        response.on('close', () => resolve(problemOf(status, text)))
        if (isEndless && status === 200) sent.destroy()
      })
      sent.on('upgrade', (_response, socket) => {
        socket.destroy()
        resolve(undefined)
      })
      sent.on('timeout', () => sent.destroy(new Error(`no response in ${patienceMs} ms`)))
      sent.on('error', error => {
        if (this.#mayReset) resolve(undefined)
        else reject(new Error(`${title.slice(0, 200)} failed: ${error}`))
      })
      sent.end(body)
    })
  }
}

function problemOf(status: number, text: string): string | undefined {
  // The text of a probe is not JSON.
  if (status >= 500 && text.startsWith('{')) return `the response is ${status} ${text.slice(0, 200)}`
  const isTooLong = status >= 400 && text.length > refusalBytes
  return isTooLong ? `the response ${status} has ${text.length} characters` : undefined
}

function* batchesOf<T>(all: Iterable<T>): Generator<readonly T[]> {
  let batch: T[] = []
  for (const each of all) {
    if (batch.push(each) < batchSize) continue
    yield batch
    batch = []
  }
  yield batch
}
