import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { type LogStream, outputDefaults } from './log-output.ts'
import { ProgramLog } from './program-log.ts'
import { repeatDefaults } from './repeat-limit.ts'
import { formatText } from './text-format.ts'

/** A stream whose reader takes everything that waits when it is told to. */
class Reader implements LogStream {
  readonly lines: Record<string, unknown>[] = []
  readonly #waiting: { line: string; done: (error?: Error) => void }[] = []

  write(chunk: Uint8Array, done: (error?: Error | null) => void): void {
    this.#waiting.push({ line: Buffer.from(chunk).toString(), done })
  }

  read(error?: Error): void {
    for (const { line, done } of this.#waiting.splice(0)) {
      if (error === undefined) this.lines.push(JSON.parse(line))
      done(error)
    }
  }
}

function open() {
  const stream = new Reader()
  const clock = new FakeClock()
  const log = new ProgramLog({ level: 'info', format: 'json', colour: false, stream, clock })
  return { stream, clock, log, logger: log.logger }
}

describe('a log that nothing reads', () => {
  it('drops lines past its buffer, counts them, and says so once it is read', () => {
    const { stream, log, logger } = open()
    const text = 'x'.repeat(outputDefaults.bufferBytes / 4)
    for (let at = 0; at < 10; at++) logger.info({ at, text }, 'long')
    expect(log.losses).toEqual({ bufferFull: 7, repeated: 0 })
    stream.read()
    expect(stream.lines.map(({ at }) => at)).toEqual([0, 1, 2])
    stream.read()
    expect(stream.lines.at(-1)).toMatchObject({ level: 'warn', dropped: 7 })
    logger.info({}, 'again')
    stream.read()
    expect(stream.lines.at(-1)).toMatchObject({ msg: 'again' })
    expect(stream.lines).toHaveLength(5)
  })

  it('counts lines whose reader has gone, without a line about each', () => {
    const { stream, log, logger } = open()
    for (let at = 0; at < 3; at++) logger.info({ at }, 'lost')
    stream.read(new Error('EPIPE'))
    stream.read()
    expect(log.losses.bufferFull).toBe(3)
    expect(stream.lines).toEqual([])
  })

  it('delays an exit until it is read, or for a bounded time', async () => {
    const { stream, clock, log, logger } = open()
    await log.flush()
    logger.info({}, 'last')
    let flushed = false
    const done = () => {
      flushed = true
    }
    const read = log.flush().then(done)
    await clock.advance(outputDefaults.flushMs - 1)
    expect(flushed).toBe(false)
    stream.read()
    await read
    logger.info({}, 'never read')
    const unread = log.flush()
    await clock.advance(outputDefaults.flushMs)
    await unread
    expect(clock.pendingTimers).toBe(0)
  })
})

describe('an error', () => {
  it('has its stack and its cause, unless it is an outage', () => {
    const { stream, logger } = open()
    const cause = new Error('refused')
    logger.warn({ err: new Error('a defect', { cause }) }, 'one')
    logger.warn({ err: Object.assign(new Error('away', { cause }), { isOutage: true }) }, 'other')
    stream.read()
    expect(stream.lines[0]?.err).toMatchObject({
      message: 'a defect',
      stack: expect.any(String),
      cause: { message: 'refused' },
    })
    expect(stream.lines[1]?.err).toEqual({ type: 'Error', message: 'away' })
  })
})

describe('the type of an error', () => {
  it('is its own name, also of a cause, whatever a bundler calls its class', () => {
    const { stream, logger } = open()
    class _ApiError extends Error {
      override readonly name = 'ApiError'
    }
    logger.warn({ err: new _ApiError('outer', { cause: new _ApiError('inner') }) }, 'failed')
    stream.read()
    expect(stream.lines[0]?.err).toMatchObject({ type: 'ApiError', cause: { type: 'ApiError' } })
  })
})

describe('a warning or error that repeats', () => {
  it('is written a bounded number of times in a window, then summarized', async () => {
    const { stream, clock, log, logger } = open()
    const child = logger.child({ plugin: 'demo' })
    for (let at = 0; at < repeatDefaults.lines + 5; at++) child.error({ at }, 'a request failed')
    logger.error({}, 'another failure')
    stream.read()
    expect(stream.lines).toHaveLength(repeatDefaults.lines + 1)
    expect(log.losses).toEqual({ bufferFull: 0, repeated: 5 })
    await clock.advance(repeatDefaults.windowMs)
    stream.read()
    expect(stream.lines.at(-1)).toMatchObject({
      level: 'warn',
      plugin: 'demo',
      message: 'a request failed',
      suppressed: 5,
    })
    child.error({}, 'a request failed')
    stream.read()
    expect(stream.lines.at(-1)).toMatchObject({ level: 'error', msg: 'a request failed' })
  })

  it('is limited for each controller and not for each object, so that the first failure of each is written', () => {
    const { stream, logger } = open()
    const controllers = Array.from({ length: 30 }, (_, at) => `demo/kind${at}`)
    for (const controller of controllers) {
      for (let at = 0; at < repeatDefaults.lines + 5; at++)
        logger
          .child({ plugin: 'demo', controller })
          .child({ object: `o${at}` })
          .warn({}, 'reconcile failed')
    }
    stream.read()
    expect(new Set(stream.lines.map(({ controller }) => controller))).toEqual(new Set(controllers))
    expect(stream.lines).toHaveLength(controllers.length * repeatDefaults.lines)
  })

  it('does not limit information, nor the line before an exit', () => {
    const { stream, logger } = open()
    for (let at = 0; at <= repeatDefaults.lines; at++) {
      logger.info({ at }, 'informs')
      logger.fatal({ at }, 'exits')
    }
    stream.read()
    expect(stream.lines).toHaveLength(2 * repeatDefaults.lines + 2)
  })

  it('keeps a bounded number of windows, however many messages there are', () => {
    const { stream, clock, logger } = open()
    for (let at = 0; at < 2 * repeatDefaults.messages; at++) logger.error({}, `message ${at}`)
    stream.read()
    expect(clock.pendingTimers).toBe(repeatDefaults.messages + 1)
    expect(stream.lines).toHaveLength(repeatDefaults.messages + repeatDefaults.lines)
  })
})

describe('text', () => {
  const time = new Date(2030, 0, 2, 3, 4, 5, 6).getTime()
  const format = (fields: object, colour = false) =>
    formatText(JSON.stringify({ level: 'info', time, ...fields }), { colour })

  it('has time, level, message and fields on one line', () => {
    const line = format({ msg: 'a request failed', path: '/apis', code: 500, why: 'two words', list: [1] })
    expect(line).toBe('03:04:05.006 INFO  a request failed path=/apis code=500 why="two words" list=[1]\n')
  })

  it('has the stack of an error and of its causes below', () => {
    const err = { message: 'outer', stack: 'Error: outer\n    at a.js:1', cause: { stack: 'Error: inner' } }
    const line = format({ level: 'error', msg: 'failed', err })
    expect(line).toBe(
      '03:04:05.006 ERROR failed\n    Error: outer\n        at a.js:1\n    caused by: Error: inner\n',
    )
  })

  it('is coloured on request only, and escapes what would drive the terminal', () => {
    const fields = { msg: 'be\u001b[2Jware', name: '\u009b31m', err: { stack: 'Error: \u001b]0;x\u0007' } }
    const plain = format(fields)
    expect(plain).toContain('be\\u001b[2Jware name="\\u009b31m"\n    Error: \\u001b]0;x\\u0007')
    expect(format({ msg: 'painted' }, true)).toContain('\u001b[32mINFO \u001b[0m painted')
  })
})
