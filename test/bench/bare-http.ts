import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** The peer of reads: node:http sends prepared bytes with the usual headers. */
const bytes = await buffer(process.stdin)
const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.end(bytes)
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object') console.log(`listening on http://127.0.0.1:${address?.port}`)
})
process.on('SIGTERM', () => process.exit(0))
