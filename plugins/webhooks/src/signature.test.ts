import { expect, test } from 'vitest'
import { SigningKeys } from './signature.ts'

test('signatures are those of Standard Webhooks', () => {
  // The example of the specification's reference libraries.
  const keys = new SigningKeys({ main: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' })
  const headers = keys.sign('main', 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}')
  expect(headers).toEqual({
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('several keys make several signatures, so that a key can be replaced', () => {
  const [old, next] = ['a', 'b'].map(letter => `whsec_${letter.repeat(32)}`)
  const sign = (text: string) =>
    new SigningKeys({ main: text }).sign('main', 'msg_1', 1, '{}')['webhook-signature']
  expect(sign(`${next} ${old}`)).toBe(`${sign(String(next))} ${sign(String(old))}`)
})

test('a seal is valid as long as one of its keys is left', () => {
  const [old, next, other] = ['a', 'b', 'c'].map(letter => `whsec_${letter.repeat(32)}`)
  const seal = new SigningKeys({ main: `${old} ${next}` }).seal('main', 'text')
  const isSealed = (key: string | undefined, text = 'text') =>
    new SigningKeys({ renamed: String(key) }).isSealed(text, seal)
  expect([isSealed(old), isSealed(next), isSealed(other)]).toEqual([true, true, false])
  expect(isSealed(old, 'other text')).toBe(false)
  expect(new SigningKeys({ main: String(old) }).isSealed('text', '')).toBe(false)
})

test('a missing key is an error', () => {
  expect(() => new SigningKeys({}).sign('main', 'msg_1', 1, '{}')).toThrow('no key "main"')
})
