import type { IncomingMessage } from 'node:http'

export async function readBody(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  return new Promise((resolve, reject) => {
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('error', reject)
    incoming.on('aborted', () => reject(new Error('aborted')))
    incoming.on('end', () => {
      if (incoming.complete) resolve(Buffer.concat(chunks).toString())
      else reject(new Error('the response ended early'))
    })
  })
}

/** Parses JSON; other text stays as it is. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
