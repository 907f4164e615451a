import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'

/** A real HTTP server on loopback for probes to look at. */
export class Target {
  readonly #server: Server
  #requests = 0
  /** What it does with requests; may be exchanged at any time. */
  answer: RequestListener

  private constructor(answer: RequestListener) {
    this.answer = answer
    this.#server = createServer((request, response) => {
      this.#requests++
      this.answer(request, response)
    })
  }

  static async start(answer: RequestListener = (_, response) => response.end('fine')): Promise<Target> {
    const target = new Target(answer)
    await new Promise<void>(resolve => target.#server.listen(0, '127.0.0.1', resolve))
    return target
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server.address())}/`
  }

  /** Requests that have arrived. */
  get requests(): number {
    return this.#requests
  }

  async stop(): Promise<void> {
    const closed = new Promise(resolve => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }
}

/** A URL on loopback that nothing listens at. */
export async function deadUrl(): Promise<string> {
  const server = createTcpServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const port = portOf(server.address())
  await new Promise(resolve => server.close(resolve))
  return `http://127.0.0.1:${port}/`
}

function portOf(address: AddressInfo | string | null): number {
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen')
  return address.port
}

/** Waits until `condition` holds; what it waits for must be under way. @throws when it takes a minute. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`waited in vain: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
