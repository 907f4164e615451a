import {
  type Transport,
  TransportError,
  type TransportRequest,
} from '../../../controller-runtime/src/client/transport.ts'

/** A transport that a test can disconnect. Open watches stay open. */
export class FaultyTransport implements Transport {
  readonly #server: Transport
  /** `down`: requests fail. `silent`: requests neither arrive nor fail. */
  state: 'up' | 'down' | 'silent' = 'up'

  constructor(server: Transport) {
    this.#server = server
  }

  async request(request: TransportRequest) {
    if (this.state === 'down') throw new TransportError('the link is down')
    if (this.state === 'silent') return new Promise<never>(() => {})
    return this.#server.request(request)
  }

  async watch(...[path, options]: Parameters<Transport['watch']>) {
    if (this.state !== 'up') throw new TransportError('the link is down')
    return this.#server.watch(path, options)
  }
}
