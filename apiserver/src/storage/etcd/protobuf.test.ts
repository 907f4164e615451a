import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MessageCutter } from './message-cutter.ts'
import { ProtoReader, ProtoWriter } from './protobuf.ts'

describe('the wire format of Protocol Buffers', () => {
  // The examples of its documentation, and the longest integers.
  test.each([
    [150, '089601'],
    [1, '0801'],
    [127, '087f'],
    [128, '088001'],
    [2 ** 32, '088080808010'],
    [Number.MAX_SAFE_INTEGER, '08ffffffffffffff0f'],
  ])('writes and reads the integer %d', (value, hex) => {
    const writer = new ProtoWriter(0)
    writer.integer(1, value)
    expect(writer.finish().toString('hex')).toBe(hex)
    const reader = new ProtoReader(Buffer.from(hex, 'hex'))
    expect([reader.field(), reader.integer(), reader.field()]).toEqual([1, value, 0])
  })

  test('begins a message with its length, whatever was expected of it', () => {
    for (const expectedBytes of [0, 7, 1000]) {
      const writer = new ProtoWriter(expectedBytes)
      const { mark } = writer
      writer.text(2, 'testing')
      writer.message(3, mark)
      writer.prefix(0)
      expect(writer.finish().toString('hex')).toBe('000000000b1a09120774657374696e67')
    }
  })

  test('reads integers of 64 bits as they are, and none that a double does not hold as another', () => {
    for (const value of [0n, 1n, 2n ** 49n, 2n ** 53n, 14_841_639_068_965_178_418n, 2n ** 64n - 1n]) {
      const bytes: number[] = []
      for (let rest = value; ; rest >>= 7n) {
        bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0))
        if (rest <= 0x7fn) break
      }
      expect(new ProtoReader(Buffer.from(bytes)).bigInteger()).toBe(value)
      if (value >= 2n ** 53n) expect(() => new ProtoReader(Buffer.from(bytes)).integer()).toThrow(RangeError)
    }
  })

  test('passes over fields that it does not know', () => {
    const bytes = Buffer.from(
      ['08ffffffffffffffffff01', '110102030405060708', '1a03616263', '2501020304', '3005'].join(''),
      'hex',
    )
    const reader = new ProtoReader(bytes)
    const seen: number[] = []
    for (let field = reader.field(); field !== 0; field = reader.field()) {
      seen.push(field)
      if (field === 6) expect(reader.integer()).toBe(5)
      else reader.skip()
    }
    expect(seen).toEqual([1, 2, 3, 4, 6])
  })

  test('refuses a message that is cut off, and never reads beyond its end', () => {
    const message = Buffer.from('120774657374696e67', 'hex')
    for (let length = 1; length < message.length; length++) {
      // The bytes beyond are there, and are another message's.
      const reader = new ProtoReader(message, 0, length)
      expect(() => {
        reader.field()
        reader.bytes()
      }).toThrow(RangeError)
    }
  })
})

describe('the messages of a body', () => {
  const framed = (message: Uint8Array) => {
    const prefix = Buffer.alloc(5)
    prefix.writeUInt32BE(message.length, 1)
    return Buffer.concat([prefix, message])
  }

  test('come out whole and in order, however the body is cut into chunks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 30 })),
        (messages, sizes) => {
          const body = Buffer.concat(messages.map(framed))
          const cutter = new MessageCutter()
          const out: string[] = []
          for (let at = 0, n = 0; at < body.length; n++) {
            const end = at + (sizes[n] ?? body.length)
            out.push(...cutter.take(body.subarray(at, end)).map(message => message.toString('hex')))
            at = end
          }
          expect(out).toEqual(messages.map(message => Buffer.from(message).toString('hex')))
        },
      ),
    )
  })

  test('are refused where they are compressed', () => {
    expect(() => new MessageCutter().take(Buffer.from('0100000000', 'hex'))).toThrow(RangeError)
  })
})
