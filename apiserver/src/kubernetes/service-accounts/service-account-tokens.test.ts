import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { decodeJwt, decodeProtectedHeader, generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { arrayOf, fieldsOf, textOf } from '../../../../test/support/json.ts'
import { ServedModel } from '../../model/index.ts'
import { defaultWriteOptions } from '../../registry/index.ts'
import { assembleRooms, type ServerRooms, startBuiltInKinds, startKind } from '../../rooms.ts'
import { AuthenticationCounts, BearerTokens } from '../../security/index.ts'
import { openEmbeddedStorage } from '../../storage/embedded/index.ts'
import type { Storage } from '../../storage/index.ts'
import { authenticationReviews } from '../authentication-reviews.ts'
import { BoundObjects } from './bound-objects.ts'
import { ServiceAccountTokens, serviceAccountIssuer } from './service-account-tokens.ts'
import { SigningKeys, signingKeyDefaults } from './signing-keys.ts'
import { tokenRequest } from './token-request.ts'

const kindsOfTest = () =>
  (['ServiceAccount', 'Secret'] as const).map(kind => {
    const singular = kind.toLowerCase()
    const plural = `${singular}s`
    return ServedModel.builtIn(
      defineBuiltInModel({
        group: '',
        version: 'v1',
        kind,
        singular,
        plural,
        scope: 'Namespaced',
        schema: { data: { type: 'object' } },
      }),
      { rules: {} },
    )
  })

/** One of several servers on a store. */
class TestServer {
  readonly rooms: ServerRooms
  readonly tokens: BearerTokens
  readonly accounts: ServiceAccountTokens
  readonly #clock: FakeClock
  readonly #request: ServedModel
  readonly #reviews: readonly ServedModel[]
  readonly #stopping = new AbortController()

  constructor(storage: Storage, clock: FakeClock) {
    this.#clock = clock
    this.rooms = assembleRooms({ storage, reservedDomain: 'setpoint.dev', basePath: '', log: silentLogger })
    const { models } = this.rooms
    const objects = new BoundObjects(this.rooms)
    const accounts = new ServiceAccountTokens({ keys: new SigningKeys(storage, clock), objects, clock })
    const counts = new AuthenticationCounts()
    const audience = serviceAccountIssuer
    this.accounts = accounts
    this.tokens = new BearerTokens({ issuers: [accounts], file: undefined, audience, counts, clock })
    this.#request = tokenRequest({ ...this.rooms, tokens: accounts })
    this.#reviews = authenticationReviews(this.tokens)
    for (const served of this.rooms.builtIn.all) models.add(served)
  }

  async start(): Promise<void> {
    const { rooms } = this
    const starting = { log: silentLogger, signal: this.#stopping.signal }
    rooms.follower.start()
    for (const served of kindsOfTest())
      if (rooms.models.find('', 'v1', served.model.plural) === undefined) rooms.models.add(served)
    await startBuiltInKinds(rooms, starting)
    for (const served of rooms.models.all())
      if (served.phase.name === 'Starting') await startKind(rooms, served, starting)
  }

  kind(plural: string): ServedModel {
    const served = this.rooms.models.find('', 'v1', plural)
    if (served === undefined) throw new Error(`${plural} is not served`)
    return served
  }

  create(plural: string, name: string) {
    const served = this.kind(plural)
    const { apiVersion, kind } = served.model
    const options = { ...defaultWriteOptions, namespace: 'default' }
    return this.rooms.registry.create(served, { apiVersion, kind, metadata: { name } }, options)
  }

  delete(plural: string, name: string) {
    return this.rooms.registry.delete(this.kind(plural), `default/${name}`, {}, defaultWriteOptions)
  }

  /** Returns the content of the response to a TokenRequest. */
  async request(name: string, spec: object = {}) {
    const user = { name: 'ann', groups: [] }
    const { review } = this.#request
    const asked = { user, namespace: 'default', name, metadata: {}, signal: undefined }
    const answer = await review?.respond({ spec }, asked)
    const status = fieldsOf(answer?.status)
    return {
      spec: fieldsOf(answer?.spec),
      token: textOf(status.token),
      expiresAt: Date.parse(textOf(status.expirationTimestamp)),
    }
  }

  async token(name: string, spec: object = {}): Promise<string> {
    return (await this.request(name, spec)).token
  }

  async authenticate(token: string) {
    return (await this.tokens.authenticate(token)).identity
  }

  async review(spec: object): Promise<unknown> {
    const user = { name: 'ann', groups: [] }
    const [, tokenReview] = this.#reviews
    const asked = { user, namespace: undefined, name: undefined, metadata: {}, signal: undefined }
    return tokenReview?.review?.respond({ spec }, asked)
  }

  advance(ms: number): Promise<void> {
    return this.#clock.advance(ms)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.rooms.follower.stop()
  }
}

describe('the token of a service account', () => {
  const clock = new FakeClock()
  let dataDir: string
  let storage: Storage
  let one: TestServer
  let two: TestServer

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
    storage = await openEmbeddedStorage({ dataDir, durable: false })
    one = new TestServer(storage, clock)
    two = new TestServer(storage, clock)
    for (const server of [one, two]) await server.start()
    await one.create('serviceaccounts', 'robot')
  })
  afterAll(async () => {
    await one?.stop()
    await two?.stop()
    await storage?.close()
    await rm(dataDir, { recursive: true, force: true })
  })

  const refused = (code: number, message: string | RegExp = '') =>
    expect.objectContaining({ code, message: expect.stringMatching(message) })

  it('names it on every server, as Kubernetes does', async () => {
    const { spec, token, expiresAt } = await one.request('robot', {
      audiences: null,
      expirationSeconds: null,
      boundObjectRef: null,
    })
    expect(spec).toEqual({ audiences: [serviceAccountIssuer], expirationSeconds: 3600, boundObjectRef: null })
    expect(expiresAt).toBe(clock.now() + 3_600_000)
    const claims = decodeJwt(token)
    const { user } = await two.authenticate(token)
    expect(user).toEqual({
      name: 'system:serviceaccount:default:robot',
      uid: expect.any(String),
      groups: ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'],
      extra: { 'authentication.kubernetes.io/credential-id': [`JTI=${claims.jti}`] },
    })
    expect(claims).toEqual({
      iss: serviceAccountIssuer,
      sub: user.name,
      aud: [serviceAccountIssuer],
      iat: clock.now() / 1000,
      nbf: clock.now() / 1000,
      exp: clock.now() / 1000 + 3600,
      jti: expect.any(String),
      'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'robot', uid: user.uid } },
    })
    expect(await one.authenticate(token)).toMatchObject({ user })
  })

  it('lives as long as asked, up to a day', async () => {
    const { spec } = await one.request('robot', { expirationSeconds: 1_000_000 })
    expect(spec.expirationSeconds).toBe(86_400)
    const token = await one.token('robot', { expirationSeconds: 600 })
    let revoked = 0
    const { credential } = await two.authenticate(token)
    credential?.onRevoked(() => revoked++)
    await one.advance(599_000)
    await two.authenticate(token)
    expect(revoked).toBe(0)
    await one.advance(1_000)
    expect(revoked).toBe(1)
    await expect(two.authenticate(token)).rejects.toEqual(refused(401, 'expired'))
  })

  it('of a server whose clock is more than a minute ahead is refused with the difference', async () => {
    const behind = new FakeClock(clock.now() - 60_000)
    const slow = new TestServer(storage, behind)
    await slow.start()
    const token = await one.token('robot')
    await slow.authenticate(token)
    behind.jump(-60_000)
    await expect(slow.authenticate(await one.token('robot'))).rejects.toEqual(
      refused(401, 'its time is 120 s ahead of the clock of this server'),
    )
    await slow.stop()
  })

  it('is for the audiences that were asked for', async () => {
    const token = await one.token('robot', { audiences: ['vault', 'registry'] })
    await expect(two.authenticate(token)).rejects.toEqual(refused(401, 'another audience'))
    expect(await two.review({ token, audiences: ['registry', 'x'] })).toMatchObject({
      status: {
        authenticated: true,
        user: { username: 'system:serviceaccount:default:robot' },
        audiences: ['registry'],
      },
    })
    for (const spec of [{ token }, { token, audiences: ['x'] }, { token: `${token}x` }])
      expect(await two.review(spec)).toMatchObject({
        status: { authenticated: false, error: expect.any(String) },
      })
    for (const spec of [{ token: '' }, {}])
      await expect(two.review(spec)).rejects.toEqual(refused(400, 'spec.token is required'))
    const own = await one.token('robot')
    expect(await two.review({ token: own })).toMatchObject({
      status: { authenticated: true, audiences: [serviceAccountIssuer] },
    })
    expect(await two.review({ token: own, audiences: ['vault'] })).toMatchObject({
      status: { authenticated: false },
    })
  })

  it('is invalid as soon as its account is gone, also for one of the same name', async () => {
    await one.create('serviceaccounts', 'short')
    const token = await one.token('short')
    // The second server may not have the account in its cache yet.
    const { credential } = await two.authenticate(token)
    const revoked = new Promise<void>(resolve => credential?.onRevoked(resolve))
    await one.delete('serviceaccounts', 'short')
    await revoked
    await expect(two.authenticate(token)).rejects.toEqual(refused(401, 'is gone'))
    await one.create('serviceaccounts', 'short')
    await expect(two.authenticate(token)).rejects.toEqual(refused(401, 'is gone'))
    await two.authenticate(await one.token('short'))
  })

  it('is invalid as soon as the Secret that it is bound to is gone', async () => {
    await one.create('secrets', 'anchor')
    const boundObjectRef = { kind: 'Secret', apiVersion: 'v1', name: 'anchor' }
    const token = await one.token('robot', { boundObjectRef })
    await two.authenticate(token)
    await one.delete('secrets', 'anchor')
    await expect
      .poll(() => two.authenticate(token).catch((error: unknown) => error))
      .toEqual(refused(401, 'is gone'))
    await expect(one.request('robot', { boundObjectRef })).rejects.toEqual(refused(404))
  })

  it.each<[string, object, number]>([
    ['a Pod', { kind: 'Pod', apiVersion: 'v1', name: 'a' }, 400],
    ['a Secret without a name', { kind: 'Secret', apiVersion: 'v1' }, 400],
    ['another Secret', { kind: 'Secret', apiVersion: 'v1', name: 'kept', uid: 'other' }, 409],
  ])('is not bound to %s', async (_what, boundObjectRef, code) => {
    await one.create('secrets', 'kept').catch(() => {})
    await expect(one.request('robot', { boundObjectRef })).rejects.toEqual(refused(code))
  })

  it('is not issued for an account that does not exist', async () => {
    await expect(one.request('nobody')).rejects.toEqual(refused(404))
  })

  it('is signed with a new key a while after it is listed, and the old key verifies what it has signed', async () => {
    const keyOf = (token: string) => decodeProtectedHeader(token).kid
    const before = await one.token('robot')
    expect(keyOf(await two.token('robot'))).toBe(keyOf(before))
    await one.advance(signingKeyDefaults.rotateAfterMs)
    expect(keyOf(await one.token('robot'))).toBe(keyOf(before))
    const listed = async (server: TestServer) =>
      (await server.accounts.publicKeys()).keys.map(({ kid, alg, use, d }) => [kid, alg, use, d])
    const keys = await listed(two)
    expect(keys).toEqual([
      [expect.any(String), 'ES256', 'sig', undefined],
      [keyOf(before), 'ES256', 'sig', undefined],
    ])

    await one.advance(signingKeyDefaults.announceMs)
    const last = await one.token('robot', { expirationSeconds: 86_400 })
    expect(keyOf(last)).toBe(keys[0]?.[0])
    const [other, again] = await Promise.all([two.token('robot'), one.token('robot')])
    expect(keyOf(last)).not.toBe(keyOf(before))
    expect([keyOf(other), keyOf(again)]).toEqual([keyOf(last), keyOf(last)])
    await two.authenticate(last)

    await one.advance(signingKeyDefaults.rotateAfterMs)
    await one.token('robot')
    const { pair } = await storage.get('authentication/service-account-keys')
    const ids = arrayOf(JSON.parse(String(pair?.value))).map(key => fieldsOf(key).id)
    expect(ids).toHaveLength(2)
    expect(ids).toContain(keyOf(last))
    expect(ids).not.toContain(keyOf(before))
  })

  it('of a key that was removed from the store is refused after the next check, and malformed keys are noticed', async () => {
    const keys = new SigningKeys(storage)
    const { id } = await keys.current()
    const key = 'authentication/service-account-keys'
    await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key }] })
    expect(await keys.find(id)).toBeDefined()
    await keys.check()
    expect(await keys.find(id)).toBeUndefined()
    expect(keys.isReadable).toBe(true)
    await storage.transact({ compares: [], onSuccess: [{ type: 'put', key, value: Buffer.from('cut') }] })
    await keys.check()
    expect(keys.isReadable).toBe(false)
    await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key }] })
    await keys.check()
    expect(keys.isReadable).toBe(true)
  })

  it('of a key that no server has is refused', async () => {
    const { privateKey } = await generateKeyPair('ES256')
    const forged = await new SignJWT(decodeJwt(await one.token('robot')))
      .setProtectedHeader({ alg: 'ES256', kid: 'unknown' })
      .sign(privateKey)
    await expect(one.authenticate(forged)).rejects.toEqual(
      refused(401, 'a key that its issuer does not have'),
    )
  })
})
