import { connect } from 'node:net'
import type { Answer } from './api.ts'

/**
 * Sends raw bytes to a local port and reads until the server closes the connection. For requests that no HTTP client
 * sends. They should contain `connection: close`.
 */
export async function sendRaw(port: number, bytes: string | Uint8Array): Promise<Answer> {
  const socket = connect(port, '127.0.0.1')
  // A server that has responded may reset the connection while the rest of the request is being sent.
  socket.on('error', () => {})
  const parts: Buffer[] = []
  socket.on('data', (part: Buffer) => parts.push(part))
  socket.setTimeout(120_000, () => socket.destroy())
  socket.write(bytes)
  await new Promise<void>(resolve => socket.once('close', () => resolve()))
  return readAnswer(Buffer.concat(parts).toString())
}

/** Returns the head of a request without a body. */
export function requestText(line: string, headers: Readonly<Record<string, string>>, body = ''): string {
  const lines = Object.entries({ connection: 'close', ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  return [`${line} HTTP/1.1`, ...lines, '', body].join('\r\n')
}

function readAnswer(text: string): Answer {
  const match = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n([\s\S]*?)\r\n\r\n([\s\S]*)$/.exec(text)
  if (match === null) throw new Error(`not an HTTP response: ${JSON.stringify(text.slice(0, 500))}`)
  const [, status = '', head = '', rest = ''] = match
  const headers = new Headers()
  for (const line of head.split('\r\n')) {
    const at = line.indexOf(':')
    headers.append(line.slice(0, at).trim(), line.slice(at + 1).trim())
  }
  const content = headers.get('transfer-encoding') === 'chunked' ? unchunk(rest) : rest
  let body: unknown
  try {
    body = JSON.parse(content)
  } catch {
    body = undefined
  }
  return { status: Number(status), headers, text: content, body }
}

function unchunk(text: string): string {
  let rest = text
  let content = ''
  for (;;) {
    const at = rest.indexOf('\r\n')
    const size = Number.parseInt(rest.slice(0, at), 16)
    if (at < 0 || !(size > 0)) return content
    content += rest.slice(at + 2, at + 2 + size)
    rest = rest.slice(at + 4 + size)
  }
}
