import { createHmac } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { UnsecuredJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { OidcIssuer } from './support/oidc-issuer.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { copyFixture } from './support/worlds.ts'

const itemsPath = '/apis/items.example.com/v1/items'
const nowSeconds = () => Math.floor(Date.now() / 1000)

describe('with OpenID Connect issuers', () => {
  let first: OidcIssuer
  let second: OidcIssuer
  let plugin: string
  let server: RunningServer
  let api: Api
  const folders: string[] = []

  beforeAll(async () => {
    first = await OidcIssuer.start({
      ann: { groups: ['setpoint:admins'] },
      vic: { groups: 'setpoint:viewers' },
    })
    second = await OidcIssuer.start({
      bob: { email: 'bob@example.com', email_verified: true, roles: ['admins'] },
      eve: { email: 'eve@example.com', email_verified: false, roles: ['admins'] },
    })
    folders.push(first.certificates.folder, second.certificates.folder)
    plugin = await copyFixture('items-plugin')
    folders.push(plugin)
    const config = join(plugin, 'setpoint.yaml')
    const issuers = [
      { issuer: first.url, audience: 'setpoint', ca: first.certificates.ca },
      {
        issuer: second.url,
        audience: 'setpoint',
        ca: second.certificates.ca,
        'username-claim': 'email',
        'groups-claim': 'roles',
        'groups-prefix': 'setpoint:',
      },
    ]
    await writeFile(config, JSON.stringify({ oidc: issuers }))
    server = await startSharedServer({ plugins: [plugin], args: ['--config', config] })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all([first?.stop(), second?.stop()])
    await Promise.all(folders.map(folder => rm(folder, { recursive: true, force: true })))
  })

  const send = (method: string, token: string) =>
    api.request(method, `${itemsPath}/none`, undefined, { headers: { authorization: `Bearer ${token}` } })
  const refuse = async (token: string, code = 401) => refusalOf(await send('GET', token), code).message

  it('a token of the token endpoint authenticates its user, with groups and prefixes', async () => {
    const ann = await first.token('ann')
    refusalOf(await send('DELETE', ann), 404)
    const vic = await first.token('vic')
    refusalOf(await send('GET', vic), 404)
    expect(refusalOf(await send('DELETE', vic), 403).message).toContain(`"${first.url}#vic"`)
    refusalOf(await send('DELETE', await second.token('bob')), 404)
    const noGroups = await second.sign({ email: 'joe@example.com', exp: nowSeconds() + 60 })
    expect(refusalOf(await send('GET', noGroups), 403).message).toContain('"joe@example.com"')
  })

  it('an e-mail address that is not verified is no user', async () => {
    expect(await refuse(await second.token('eve'))).toBe('the e-mail address in the token is not verified')
  })

  it.each<[string, object, string | RegExp]>([
    ['has expired', { exp: nowSeconds() - 1 }, 'the token has expired'],
    ['never expires', {}, 'the claim exp of the token is missing or invalid'],
    ['is not valid yet', { nbf: nowSeconds() + 600 }, /^the token is not valid yet: its time is \d+ s ahead/],
    ['is for another audience', { aud: 'other' }, 'the token is for another audience'],
    ['is for no audience', { aud: undefined }, 'the token is for another audience'],
    ['names no user', { sub: undefined }, 'the token has no text in the claim "sub" for the user'],
    ['names a number', { sub: 1 }, 'the token has no text in the claim "sub" for the user'],
    [
      'has wrong groups',
      { groups: [1] },
      'the claim "groups" of the token is neither a text nor a list of texts',
    ],
  ])('a token that %s is refused', async (which, claims, message) => {
    const exp = which === 'never expires' ? {} : { exp: nowSeconds() + 3_600 }
    const refused = await refuse(await first.sign({ ...exp, ...claims }))
    if (message instanceof RegExp) expect(refused).toMatch(message)
    else expect(refused).toBe(message)
  })

  it('the clock of an issuer may be 5 minutes ahead', async () => {
    const token = await first.sign({
      exp: nowSeconds() + 3_600,
      nbf: nowSeconds() + 200,
      iat: nowSeconds() + 200,
    })
    refusalOf(await send('GET', token), 403)
  })

  it('a token without a signature, or with one by the public key as a secret, is refused', async () => {
    const claims = { iss: first.url, sub: 'ann', aud: 'setpoint', groups: ['setpoint:admins'] }
    const unsigned = new UnsecuredJWT(claims).setExpirationTime('1h').encode()
    expect(await refuse(unsigned)).toMatch(/algorithm that is not accepted|malformed/)
    const { kid, n } = first.publicKey
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    for (const secret of [n ?? '', JSON.stringify(first.publicKey)]) {
      const content = `${encode({ alg: 'HS256', kid })}.${encode({ ...claims, exp: nowSeconds() + 60 })}`
      const signature = createHmac('sha256', secret).update(content).digest('base64url')
      expect(await refuse(`${content}.${signature}`)).toMatch(/algorithm that is not accepted/)
    }
  })

  it('the token of one issuer is none of another, and a changed one is refused', async () => {
    const exp = nowSeconds() + 60
    expect(await refuse(await first.sign({ exp, iss: second.url }))).toContain(
      'a key that its issuer does not have',
    )
    expect(await refuse(await first.sign({ exp, iss: 'https://other.example.com' }))).toBe(
      'the token is invalid',
    )
    const [header, , signature] = (await first.token('vic')).split('.')
    const [, payload] = (await first.token('ann')).split('.')
    expect(await refuse(`${header}.${payload}.${signature}`)).toBe('the signature of the token is invalid')
  })

  it('a watch ends with 1008 when its token expires', async () => {
    /** Tries longer lives where the token expires before the watch is open. */
    const open = async (seconds: number): Promise<{ token: string; watch: Watch }> => {
      const token = await first.sign({ exp: nowSeconds() + seconds, groups: ['setpoint:viewers'] })
      const headers = { authorization: `Bearer ${token}` }
      const watch = await Watch.open(server.url, itemsPath, { headers }).catch(() => undefined)
      return watch === undefined ? open(2 * seconds) : { token, watch }
    }
    const { token, watch } = await open(2)
    expect(await watch.closed).toMatchObject({ code: 1008 })
    expect(await refuse(token)).toBe('the token has expired')
  })

  it('a token of a new key is accepted at once, and of a removed key no longer', async () => {
    const before = await first.sign({ exp: nowSeconds() + 600, groups: ['setpoint:viewers'], jti: 'unseen' })
    await first.rotate({ keepOld: false })
    refusalOf(await send('GET', await first.token('vic')), 404)
    expect(await refuse(before)).toContain('a key that its issuer does not have')
  })

  it('tokens with unknown keys cost the issuer few requests', async () => {
    const asked = first.keyRequests
    const exp = nowSeconds() + 60
    for (let n = 0; n < 50; n++) await refuse(await first.sign({ exp }, { kid: `unknown-${n}` }))
    expect(first.keyRequests - asked).toBeLessThanOrEqual(6)
  })

  it('an outage of the issuer leaves its known keys in use, and tokens with other keys get 503', async () => {
    const known = await first.sign({ exp: nowSeconds() + 60, groups: ['setpoint:viewers'] })
    await first.stop()
    refusalOf(await send('GET', known), 404)
    const answers = async () => {
      const { status, headers } = await send(
        'GET',
        await first.sign({ exp: nowSeconds() + 60 }, { kid: 'new' }),
      )
      return [status, Number(headers.get('retry-after')) > 0]
    }
    // The back-off of earlier unknown keys may not have passed.
    await expect.poll(answers, { timeout: 120_000 }).toEqual([503, true])
    refusalOf(await send('GET', await second.token('bob')), 404)
    const authorization = `Bearer ${await second.token('bob')}`
    const { text } = await api.get('/metrics', { headers: { authorization } })
    expect(text).toMatch(/^authentication_attempts\{method="oidc",result="error"\} [1-9]/m)
    expect(text).toMatch(/^authentication_token_cache_request_total\{status="hit"\} [1-9]/m)
    expect(text).toContain(`setpoint_oidc_issuer_failing_seconds{issuer="${second.url}"} 0\n`)
    expect(text).not.toContain(`setpoint_oidc_issuer_failing_seconds{issuer="${first.url}"} 0\n`)
    await first.resume()
    refusalOf(await send('GET', known), 404)
  })

  it('no token gets a 500, however broken', async () => {
    const token = await first.token('ann')
    const parts = token.split('.')
    const json = fc.json().map(text => Buffer.from(text).toString('base64url'))
    const part = fc.oneof(fc.constantFrom(...parts, ''), fc.base64String(), json)
    const broken = fc.oneof(
      fc.array(part, { maxLength: 5 }).map(some => some.join('.')),
      fc
        .tuple(fc.nat(token.length), fc.stringMatching(/^[!-~]{0,3}$/))
        .map(([at, put]) => token.slice(0, at) + put),
      fc
        .dictionary(fc.constantFrom('alg', 'kid', 'crit', 'b64', 'jwk', 'jku', 'typ', 'x5c'), fc.jsonValue())
        .map(header =>
          [Buffer.from(JSON.stringify(header)).toString('base64url'), parts[1], parts[2]].join('.'),
        ),
    )
    await fc.assert(
      fc.asyncProperty(
        broken.filter(text => text !== token && /^[!-~]+$/.test(text)),
        async text => {
          const { status } = await send('GET', text)
          // 404: base64 has several forms of the same signature.
          expect([401, 404, 503]).toContain(status)
        },
      ),
      { numRuns: 300 },
    )
  })
})
