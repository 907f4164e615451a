import { once } from 'node:events'
import { constants, createServer, type ServerHttp2Stream } from 'node:http2'
import { createServer as createTcpServer, type Server } from 'node:net'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, test } from 'vitest'
import { CallError, grpcStatus } from './call-error.ts'
import { Channel } from './channel.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const message = Buffer.from('00000000020801', 'hex')
const call = { path: '/test.Service/Method', metadata: {}, message }
const patience = 60_000

interface Peer {
  readonly endpoint: string
  /** Connections that it has accepted. */
  sessions: number
}

async function peer(answer: (stream: ServerHttp2Stream) => void): Promise<Peer> {
  const server = createServer()
  const it = { endpoint: '', sessions: 0 }
  server.on('session', session => {
    it.sessions += 1
    cleanups.push(() => session.destroy())
    session.on('error', () => {})
  })
  server.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => {})
    answer(stream)
  })
  it.endpoint = await listen(server)
  cleanups.push(() => server.close())
  return it
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

function channelTo(endpoint: string): Channel {
  const channel = new Channel(endpoint)
  cleanups.push(() => channel.close())
  return channel
}

async function failureOf(answer: Promise<unknown>): Promise<CallError> {
  const failure = await answer.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (failure instanceof CallError) return failure
  throw new Error(`not a CallError: ${failure}`)
}

/** Answers with one message and this status. */
function respond(stream: ServerHttp2Stream, status = '0', details = ''): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': details }))
  stream.end(message)
}

/** What has happened, by the place of its flag in the memory that two threads share. */
const step = { asked: 0, busy: 1, answered: 2 }

function raise(flags: Int32Array, at: number): void {
  Atomics.store(flags, at, 1)
  Atomics.notify(flags, at)
}

/** In a thread of its own: answers the first call once the other thread stands still. */
const steppingPeer = `
  const { createServer } = require('node:http2')
  const { parentPort, workerData: flags } = require('node:worker_threads')
  const step = ${JSON.stringify(step)}
  ${raise}
  const server = createServer()
  server.on('stream', stream => {
    stream.resume()
    stream.on('end', () => {
      raise(flags, step.asked)
      Atomics.wait(flags, step.busy, 0)
      stream.respond({ ':status': 200 }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.on('close', () => raise(flags, step.answered))
      stream.end(Buffer.from('${message.toString('hex')}', 'hex'))
    })
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`

describe('a gRPC channel', () => {
  test('brings an answer, and many at once over one connection', async () => {
    const it = await peer(stream => respond(stream))
    const channel = channelTo(it.endpoint)
    const answers = await Promise.all(Array.from({ length: 200 }, () => channel.call(call, patience)))
    expect(answers.map(answer => answer.toString('hex'))).toEqual(answers.map(() => '0801'))
    expect(it.sessions).toBe(1)
  })

  test('tells the status of a refusal, whichever way it is sent, with its text as it was', async () => {
    let inTrailers = false
    const { endpoint } = await peer(stream => {
      if (inTrailers) respond(stream, '9', 'caf%C3%A9 100%25')
      else
        stream.respond(
          { ':status': 200, 'grpc-status': '9', 'grpc-message': 'caf%C3%A9 100%25' },
          { endStream: true },
        )
    })
    const channel = channelTo(endpoint)
    for (inTrailers of [false, true]) {
      const { code, message: text, unsent } = await failureOf(channel.call(call, patience))
      expect({ code, text, unsent }).toEqual({ code: 9, text: 'café 100%', unsent: false })
    }
  })

  test('says of a call that it has not been sent: nobody listens', async () => {
    const gone = createTcpServer()
    const endpoint = await listen(gone)
    gone.close()
    await once(gone, 'close')
    const channel = channelTo(endpoint)
    const failures = await Promise.all(
      [channel.call(call, patience), channel.call(call, patience)].map(failureOf),
    )
    // While it pauses, at once.
    failures.push(await failureOf(channel.call(call, patience)))
    for (const { code, unsent } of failures)
      expect({ code, unsent }).toEqual({ code: grpcStatus.unavailable, unsent: true })
  })

  test('says of a call that it has not been sent: the other side takes the connection and says nothing', async () => {
    const silent = createTcpServer(socket => cleanups.push(() => socket.destroy()))
    cleanups.push(() => silent.close())
    const channel = channelTo(await listen(silent))
    const { code, unsent } = await failureOf(channel.call(call, 50))
    expect({ code, unsent }).toEqual({ code: grpcStatus.deadlineExceeded, unsent: true })
    const waiting = failureOf(channel.call(call, patience))
    channel.close()
    expect(await waiting).toMatchObject({ code: grpcStatus.cancelled, unsent: true })
  })

  test('says of a call that it may have happened: no answer in time, a connection that breaks, an answer cut off', async () => {
    let how: (stream: ServerHttp2Stream) => void = stream => respond(stream)
    const { endpoint } = await peer(stream => how(stream))
    const channel = channelTo(endpoint)
    await channel.call(call, patience)
    how = () => {}
    expect(await failureOf(channel.call(call, 50))).toMatchObject({
      code: grpcStatus.deadlineExceeded,
      unsent: false,
    })
    how = stream => stream.session?.destroy()
    expect(await failureOf(channel.call(call, patience))).toMatchObject({
      code: grpcStatus.unavailable,
      unsent: false,
    })
    how = stream => {
      stream.respond({ ':status': 200 })
      stream.end(message)
    }
    expect(await failureOf(channel.call(call, patience))).toMatchObject({
      code: grpcStatus.unavailable,
      unsent: false,
    })
  })

  test('takes an answer that came in time though this process was too busy to read it', async () => {
    const flags = new Int32Array(new SharedArrayBuffer(12))
    const worker = new Worker(steppingPeer, { eval: true, workerData: flags })
    cleanups.push(() => worker.terminate())
    const [port] = await once(worker, 'message')
    const channel = channelTo(`http://127.0.0.1:${port}`)
    const deadlineMs = 2_000
    const begun = performance.now()
    const answer = channel.call(call, deadlineMs)
    while (Atomics.load(flags, step.asked) === 0) await new Promise(resolve => setImmediate(resolve))
    // From here on this thread stands still, until the answer is there and the deadline has passed.
    raise(flags, step.busy)
    Atomics.wait(flags, step.answered, 0)
    while (performance.now() < begun + deadlineMs + 10);
    expect((await answer).toString('hex')).toBe('0801')
  })

  test('knows that a stream which the other side has refused was not looked at', async () => {
    const { endpoint } = await peer(stream => stream.close(constants.NGHTTP2_REFUSED_STREAM))
    const failure = await failureOf(channelTo(endpoint).call(call, patience))
    expect(failure).toMatchObject({ code: grpcStatus.unavailable, unsent: true })
  })

  test('ends a call whose signal is aborted, and tells the other side', async () => {
    const controller = new AbortController()
    let told = (_code: number | undefined) => {}
    const code = new Promise<number | undefined>(resolve => {
      told = resolve
    })
    const { endpoint } = await peer(stream => {
      stream.on('close', () => told(stream.rstCode))
      controller.abort()
    })
    const failure = await failureOf(channelTo(endpoint).call(call, patience, controller.signal))
    expect(failure).toMatchObject({ code: grpcStatus.cancelled, unsent: false })
    expect(await code).toBe(constants.NGHTTP2_CANCEL)
  })

  test('makes the next call over a new connection when the other side says that it goes', async () => {
    const it = await peer(stream => {
      respond(stream)
      stream.session?.goaway()
    })
    const channel = channelTo(it.endpoint)
    for (let n = 0; n < 5; n++) expect((await channel.call(call, patience)).toString('hex')).toBe('0801')
    expect(it.sessions).toBeGreaterThan(1)
  })

  test('brings the messages of a stream as they come, and its end as the failure that it is', async () => {
    const { endpoint } = await peer(stream => {
      stream.respond({ ':status': 200 }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '14', 'grpc-message': 'going' }))
      // Cut in the middle of the second.
      stream.write(Buffer.concat([message, message.subarray(0, 3)]))
      setImmediate(() => stream.end(message.subarray(3)))
    })
    const seen: string[] = []
    const stream = await channelTo(endpoint).stream(call)
    const read = async () => {
      for await (const one of stream) seen.push(one.toString('hex'))
    }
    expect(await failureOf(read())).toMatchObject({ code: 14, message: 'going' })
    expect(seen).toEqual(['0801', '0801'])
  })

  test('lets go of a stream at once, though the other side takes nothing', async () => {
    const { endpoint } = await peer(stream => stream.respond({ ':status': 200 }))
    const stream = await channelTo(endpoint).stream(call)
    const read = async () => {
      for await (const _ of stream);
    }
    const ended = failureOf(read())
    stream.cancel()
    expect(await ended).toMatchObject({ code: grpcStatus.unavailable })
  })
})
