import { IncomingMessage } from 'node:http'

/**
 * Returns the class of a server's requests. Node hands a connection over to 'upgrade' only for a request that
 * `isTaken` accepts, and to 'connect' never. It parses all other requests as usual: a server may ignore an Upgrade
 * header (RFC 9110, 7.8), and some clients offer h2c with each first request.
 *
 * Node asks a request for `upgrade` after it has parsed the headers. `shouldUpgradeCallback` does the same and does not
 * exist in Node 20. After an upgrade it parses no further, so requests behind it do not exist on a destroyed socket.
 */
export function requestsThatUpgrade(isTaken: (message: IncomingMessage) => boolean): typeof IncomingMessage {
  return class extends IncomingMessage {
    // Node's constructor assigns `upgrade`, before a private field would exist.
    parserSaysSo = false

    get upgrade(): boolean {
      return this.socket.destroyed || (this.parserSaysSo && isTaken(this))
    }

    set upgrade(value: boolean | null) {
      this.parserSaysSo = value === true
    }
  }
}

/**
 * Returns true if Node's parser drops the bytes that arrived together with a request and follow it. They could be for
 * another protocol.
 */
export function mayEndHttp({ method, headers }: IncomingMessage): boolean {
  return method === 'CONNECT' || headers.upgrade !== undefined
}

/**
 * Returns true for a WebSocket handshake. Over HTTP/1.0 the header must be ignored (RFC 9110, 7.8). With HEAD it is
 * ignored, because an error response to a handshake has a body.
 */
export function offersWebSocket({ method, headers, httpVersion }: IncomingMessage): boolean {
  if (method === 'CONNECT' || method === 'HEAD' || httpVersion !== '1.1') return false
  return headers.upgrade?.toLowerCase() === 'websocket'
}
