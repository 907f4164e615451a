import { isApiError } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { LocalOrigins, NamedOrigins } from './origins.ts'

const names = ['https://console.example.org', 'http://localhost:3000', '*.example.com']
const plain = new NamedOrigins(names, { isSecure: false })
const secure = new NamedOrigins(names, { isSecure: true })

function isAllowed(origins: NamedOrigins, headers: Readonly<Record<string, string>>): boolean {
  try {
    origins.check(headers)
    return true
  } catch (error) {
    if (isApiError(error) && error.code === 403) return false
    throw error
  }
}

describe('a page', () => {
  it.each([
    'https://console.example.org',
    'http://localhost:3000',
    'https://a.example.com',
    'https://b.a.example.com',
    'https://a.example.com:8443',
    'http://a.example.com',
  ])('of %s, which is named, may call', origin => {
    expect(isAllowed(secure, { origin, host: 'api.example.net' })).toBe(true)
  })

  it.each([
    'http://console.example.org',
    'https://console.example.org:8443',
    'https://console.example.org.evil.example',
    'https://localhost:3000',
    'https://example.com',
    'https://evilexample.com',
    'https://a.example.com.evil.example',
    'https://evil.example/.example.com',
    'https://evil.example#.example.com',
    'https://evil.example:443/a.example.com',
    'https://a.example.com:443:443',
    'ftp://a.example.com',
    'https://console.example.org, https://evil.example',
    'null',
    'file://',
    '*',
    '',
  ])('of %j may not call', origin => {
    expect(isAllowed(secure, { origin, host: 'api.example.net' })).toBe(false)
    expect(isAllowed(plain, { origin, host: 'api.example.net' })).toBe(false)
  })

  it('of the server itself may call, by the Host header', () => {
    for (const host of ['api.example.net', 'api.example.net:8443', 'API.example.net']) {
      const origin = `https://${host.toLowerCase()}`
      expect(isAllowed(secure, { origin, host })).toBe(true)
      expect(isAllowed(plain, { origin, host })).toBe(true)
      expect(isAllowed(secure, { origin, host: 'other.example.net' })).toBe(false)
    }
    expect(isAllowed(secure, { origin: 'https://undefined' })).toBe(false)
  })

  it('on plain HTTP is not a page of a server with TLS', () => {
    const headers = { origin: 'http://api.example.net', host: 'api.example.net' }
    expect(isAllowed(secure, headers)).toBe(false)
    expect(isAllowed(plain, headers)).toBe(true)
  })
})

describe('a request without an Origin', () => {
  it.each<[boolean, Readonly<Record<string, string>>]>([
    [true, {}],
    [true, { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }],
    [true, { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }],
    [true, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }],
    [false, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }],
    [false, { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }],
    [false, { 'sec-fetch-site': 'cross-site' }],
  ])('is served (%s) with %j', (served, headers) => {
    expect(isAllowed(secure, headers)).toBe(served)
  })
})

it.each([
  ['Host', new LocalOrigins(), 'host'],
  ['Origin', new LocalOrigins(), 'origin'],
  ['Origin', plain, 'origin'],
  ['Sec-Fetch-Site', plain, 'sec-fetch-site'],
])('a refusal repeats at most 100 characters of %s', (_what, origins, name) => {
  const check = () => origins.check({ [name]: 'x'.repeat(5000) })
  expect(check).toThrow(/"x{99}…"/)
})
