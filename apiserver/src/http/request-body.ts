import type { IncomingMessage } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { requestLimits } from './api-request.ts'

/** Ends the reading of each body that is being read. */
const readings = new WeakMap<IncomingMessage, (why: ApiError) => void>()

/** The errors of bodies that were refused before they are read. */
const refusals = new WeakMap<IncomingMessage, ApiError>()

/** Ends the reading of a body with an error, now or when it begins. Returns false if the body is not being read. */
export function refuseBody(message: IncomingMessage, why: ApiError): boolean {
  const refuse = readings.get(message)
  if (refuse === undefined) refusals.set(message, why)
  else refuse(why)
  return refuse !== undefined
}

/** Counts the bytes of a body. */
export interface BodyCount {
  /** Called before the first byte. `refuse` ends the reading with an error. */
  begin(refuse: (why: ApiError) => void): void
  add(bytes: number): void
  complete(): void
}

/**
 * Reads the whole body of a request.
 * @throws ApiError 413 as soon as it exceeds the limit, 400 if the client disconnects, and the error of `refuseBody`
 */
export function readRequestBody(message: IncomingMessage, count?: BodyCount): Promise<Buffer> {
  const limit = requestLimits.bodyBytes
  const declared = Number(message.headers['content-length'])
  if (declared > limit) return Promise.reject(tooLarge())
  const refusal = refusals.get(message)
  if (refusal !== undefined) return Promise.reject(refusal)
  // The client has left while the request waited. A body that had arrived is dropped with its connection.
  if (message.destroyed || (!message.complete && message.socket.readableEnded))
    return Promise.reject(cutOff())
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let length = 0
    const refuse = (why: ApiError) => {
      readings.delete(message)
      message.off('data', keep)
      parts.length = 0
      reject(why)
    }
    const keep = (part: Buffer) => {
      length += part.length
      if (length <= limit) {
        parts.push(part)
        count?.add(part.length)
      } else {
        message.pause()
        refuse(tooLarge())
      }
    }
    readings.set(message, refuse)
    count?.begin(refuse)
    message.on('data', keep)
    message.on('end', () => {
      readings.delete(message)
      count?.complete()
      resolve(parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts))
    })
    const broken = () => refuse(cutOff())
    message.on('error', broken)
    message.on('close', () => {
      if (!message.complete) broken()
    })
  })
}

/**
 * Reads and drops the rest of a body. Closing a connection with unread bytes would reset it, and the client would lose
 * the response. Resolves at the end of the body or at the limits.
 */
export function discardRequestBody(message: IncomingMessage): Promise<void> {
  const { socket } = message
  return new Promise(resolve => {
    const done = () => {
      clearTimeout(timer)
      socket.off('end', done)
      resolve()
    }
    const timer = setTimeout(done, requestLimits.discardMs)
    let length = 0
    message.removeAllListeners('data')
    message.on('data', (part: Buffer) => {
      length += part.length
      if (length > requestLimits.discardedBytes) done()
    })
    message.once('end', done)
    message.once('close', done)
    // After a half-close, the rest of the body never arrives.
    if (socket.readableEnded) done()
    else socket.once('end', done)
    message.resume()
  })
}

function cutOff(): ApiError {
  return new ApiError('BadRequest', 'the body ended before it was complete')
}

function tooLarge(): ApiError {
  return new ApiError('RequestEntityTooLarge', `the body is larger than ${requestLimits.bodyBytes} bytes`)
}
