import { describe, expect, it } from 'vitest'
import { requestLimits } from './api-request.ts'
import { checkHeaders } from './header-bounds.ts'

const longest = 'x'.repeat(requestLimits.headerValueBytes)

describe('the value of a header', () => {
  it('may have the limit, and not a byte more', () => {
    expect(() => checkHeaders({ accept: longest, 'x-own': longest })).not.toThrow()
    expect(() => checkHeaders({ accept: `${longest}x` })).toThrow(
      'the header accept is longer than 8192 bytes',
    )
    expect(() => checkHeaders({ 'x-own': `${longest}x` })).toThrow('the header x-own is longer')
    expect(() => checkHeaders({ 'impersonate-user': `${longest}x` })).toThrow('impersonate-user')
  })

  it.each([
    'authorization',
    'cookie',
    'impersonate-group',
    'impersonate-extra-scopes',
    'sec-websocket-protocol',
  ])('may be longer if it is %s', name => {
    expect(() => checkHeaders({ [name]: longest.repeat(8) })).not.toThrow()
  })
})
