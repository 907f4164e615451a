import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as connectSecurely } from 'node:tls'
import { silentLogger } from '@setpoint/controller-runtime'
import { expect, it } from 'vitest'
import { makeCertificates } from '../../../test/support/certificates.ts'
import { Connections } from './connections.ts'
import { readRequestBody } from './request-body.ts'

/** A TCP connection that can be held: it does not read then, and sends what was written meanwhile in one segment. */
class HeldConnection extends Duplex {
  readonly #socket: Socket
  readonly #written: Buffer[] = []
  #isHeld = false

  constructor(port: number) {
    super()
    this.#socket = connect(port, '127.0.0.1')
    this.#socket.on('data', part => this.push(part))
    this.#socket.on('close', () => this.push(null))
  }

  hold(): void {
    this.#isHeld = true
    this.#socket.pause()
  }

  send(): void {
    this.#socket.write(Buffer.concat(this.#written.splice(0)))
  }

  release(): void {
    this.#isHeld = false
    this.#socket.resume()
  }

  override _read(): void {}

  override _write(part: Buffer, _encoding: string, done: () => void): void {
    if (this.#isHeld) this.#written.push(part)
    else this.#socket.write(part)
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy()
    done(error)
  }
}

it('a request in several TLS records is handled behind a response that is still being sent', async () => {
  const { folder, cert, key } = await makeCertificates()
  const large = 64_000_000
  let parsed = 0
  const errors: unknown[] = []
  const server = createServer(
    { cert: await readFile(cert), key: await readFile(key) },
    (message, response) => {
      parsed++
      connections.handle(message, response, async () => {
        const body = await readRequestBody(message)
        response.end(message.url === '/large' ? Buffer.alloc(large) : `read ${body}`)
      })
    },
  )
  const connections = new Connections(server, { log: silentLogger })
  server.on('clientError', error => errors.push(error))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const held = new HeldConnection(port)
  const client = connectSecurely({ socket: held, rejectUnauthorized: false })
  try {
    await once(client, 'secureConnect')
    client.write('GET /large HTTP/1.1\r\nhost: x\r\n\r\n')
    await once(client, 'data')
    held.hold()
    // Each write becomes a record.
    for (const text of ['POST /next HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n', 'a', 'b']) {
      await new Promise<void>(resolve => client.write(text, () => resolve()))
    }
    held.send()
    await expect.poll(() => parsed).toBe(2)
    let received = ''
    client.setEncoding('latin1').on('data', (text: string) => {
      received = (received + text).slice(-100)
    })
    held.release()
    await expect.poll(() => received).toContain('read ab')
    expect(errors).toEqual([])
  } finally {
    client.destroy()
    connections.close()
    await rm(folder, { recursive: true, force: true })
  }
})
