import { expect, test } from 'vitest'
import { Secrets } from './secrets.ts'

function holding(...values: string[]): Secrets {
  const secrets = new Secrets()
  for (const value of values) secrets.add(value)
  return secrets
}

const line = (fields: object) => `${JSON.stringify(fields)}\n`

test('a secret of several lines is not shown in a message with JSON either', () => {
  const key = '-----BEGIN KEY-----\nab"cd\n-----END KEY-----'
  const secrets = holding(key)
  const settings = JSON.stringify({ key, user: 'joe' })
  expect(secrets.redact(settings)).toBe('{"key":"[secret]","user":"joe"}')
  expect(secrets.redactLine(line({ key, msg: settings }))).toBe(
    line({ key: '[secret]', msg: '{"key":"[secret]","user":"joe"}' }),
  )
})

test('a number is not shown if it is a secret', () => {
  const secrets = holding('482911')
  expect(secrets.redactLine(line({ pin: 482911, id: 4829, msg: 'pin 482911' }))).toBe(
    line({ pin: '[secret]', id: 4829, msg: 'pin [secret]' }),
  )
})

test('of a secret that begins with another, the rest is not shown', () => {
  expect(holding('pass', 'password').redact('password pass')).toBe('[secret] [secret]')
})
