import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { TargetPolicy, targetSettings } from '@setpoint/controller-runtime'

/** Settings that allow probes to request a `Target`. */
export const openSettings = { allowedNetworks: ['127.0.0.1/32'] }

/** The policy of these settings. */
export const openPolicy = new TargetPolicy({
  allowedHosts: [],
  deniedNetworks: targetSettings.deniedNetworks.default,
  ...openSettings,
})

/** A real HTTP server on the loopback interface, as a target for probes. */
export class Target {
  readonly #server: Server
  #requests = 0
  /** The request handler, which may be replaced at any time. */
  handler: RequestListener

  private constructor(handler: RequestListener) {
    this.handler = handler
    this.#server = createServer((request, response) => {
      this.#requests++
      this.handler(request, response)
    })
  }

  static async start(handler: RequestListener = (_, response) => response.end('fine')): Promise<Target> {
    const target = new Target(handler)
    await new Promise<void>(resolve => target.#server.listen(0, '127.0.0.1', resolve))
    return target
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server.address())}/`
  }

  /** Number of received requests. */
  get requests(): number {
    return this.#requests
  }

  async stop(): Promise<void> {
    const closed = new Promise(resolve => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }
}

/** Returns a loopback URL without a listener. */
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

/** Polls until `condition` holds. @throws Error after a minute. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`timed out waiting until ${what}`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
