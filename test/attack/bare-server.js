// @ts-check
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { Readable } from 'node:stream'

/**
 * A bare HTTP server: `bare-server.js PORT [CERT KEY]`. It sends an object to every request, and 10 MiB to every watch,
 * so what an attack delays here, the machine and Node delay.
 */
const [, , port, cert, key] = process.argv
const body = JSON.stringify({ text: 'x'.repeat(700) })
const block = Buffer.alloc(64 * 1024, 'x')
const blocks = 160

/** @type {http.RequestListener} */
const respond = (message, response) => {
  message.resume()
  if (message.url?.includes('watch=true')) {
    const events = Array.from({ length: blocks }, () => block)
    Readable.from(events).pipe(response)
    return
  }
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
  response.end(body)
}
/** As of Setpoint, which serves requests without a Host header. */
const options = { requireHostHeader: false }
const server =
  cert === undefined || key === undefined
    ? http.createServer(options, respond)
    : https.createServer({ ...options, cert: readFileSync(cert), key: readFileSync(key) }, respond)
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('setpoint listening on it\n'))
