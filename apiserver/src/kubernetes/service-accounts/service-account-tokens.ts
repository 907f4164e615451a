import { randomUUID } from 'node:crypto'
import { type Clock, systemClock, type UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { JWK, JWTHeaderParameters } from 'jose'
import {
  credentialIdKey,
  Revocations,
  serviceAccountUser,
  systemGroups,
  type TokenIssuer,
  tokenExpired,
  tokenProblem,
  type VerifiedToken,
} from '../../security/index.ts'
import { recordOf } from '../fields.ts'
import type { BoundObject, BoundObjects } from './bound-objects.ts'
import type { SigningKeys } from './signing-keys.ts'

export const serviceAccountTokenDefaults = Object.freeze({
  /** Seconds that the clock of another server may be ahead: for `nbf`. `exp` has no tolerance. */
  clockToleranceSeconds: 60,
})

/** The claim `iss` of the tokens of service accounts, and the audience of this API. */
export const serviceAccountIssuer = 'setpoint/serviceaccount'

/** The claim with the objects that a token depends on, as in Kubernetes. */
const objectsClaim = 'kubernetes.io'

/** A token to issue. */
interface TokenSpec {
  readonly account: BoundObject
  /** The token is invalid as soon as this Secret is gone. */
  readonly secret?: BoundObject
  readonly audiences: readonly string[]
  readonly lifeSeconds: number
}

interface Parts {
  readonly keys: SigningKeys
  readonly objects: BoundObjects
  readonly clock?: Clock
}

/** Issues and verifies the tokens of service accounts. Their claims are those of Kubernetes. */
export class ServiceAccountTokens implements TokenIssuer {
  readonly method = 'service-account'
  readonly issuer = serviceAccountIssuer
  readonly algorithm = 'ES256'
  readonly #keys: SigningKeys
  readonly #objects: BoundObjects
  readonly #clock: Clock
  readonly #revocations: Revocations

  constructor({ keys, objects, clock = systemClock }: Parts) {
    this.#keys = keys
    this.#objects = objects
    this.#clock = clock
    this.#revocations = new Revocations(clock)
    objects.onDeleted(() => this.#revocations.recheck())
  }

  /** @throws ApiError 503 */
  async issue({
    account,
    secret,
    audiences,
    lifeSeconds,
  }: TokenSpec): Promise<{ token: string; expiresAt: Date }> {
    const { SignJWT } = await import('jose')
    const { id, privateKey } = await this.#keys.current()
    const now = Math.floor(this.#clock.now() / 1000)
    const { namespace, name, uid } = account
    const objects = {
      namespace,
      serviceaccount: { name, uid },
      secret: secret && { name: secret.name, uid: secret.uid },
    }
    const token = await new SignJWT({ [objectsClaim]: objects })
      .setProtectedHeader({ alg: this.algorithm, kid: id })
      .setIssuer(this.issuer)
      .setSubject(serviceAccountUser(account))
      .setAudience([...audiences])
      .setIssuedAt(now)
      .setNotBefore(now)
      .setExpirationTime(now + lifeSeconds)
      .setJti(randomUUID())
      .sign(privateKey)
    return { token, expiresAt: new Date((now + lifeSeconds) * 1000) }
  }

  /** Returns the public keys of all servers, as a JSON Web Key Set (RFC 7517). @throws ApiError 503 */
  async publicKeys(): Promise<{ readonly keys: readonly JWK[] }> {
    const keys = await this.#keys.all()
    const jwkOf = ({ id, publicKey }: (typeof keys)[number]) => ({
      ...publicKey.export({ format: 'jwk' }),
      ...{ use: 'sig', kid: id, alg: this.algorithm },
    })
    return { keys: keys.map(jwkOf) }
  }

  async verify(token: string): Promise<VerifiedToken> {
    const { jwtVerify } = await import('jose')
    const now = this.#clock.now()
    const { payload } = await jwtVerify(token, header => this.#publicKey(header), {
      issuer: this.issuer,
      algorithms: [this.algorithm],
      clockTolerance: serviceAccountTokenDefaults.clockToleranceSeconds,
      currentDate: new Date(now),
      requiredClaims: ['exp', 'sub', 'jti'],
    }).catch(error => {
      throw tokenProblem(error, now)
    })
    const expiresAt = (payload.exp ?? 0) * 1000
    if (expiresAt <= now) throw tokenExpired()
    const objects = objectsOf(payload[objectsClaim])
    const [account] = objects
    if (account === undefined || payload.sub !== serviceAccountUser(account))
      throw new ApiError('Unauthorized', 'the token names no service account')
    const isValid = () => objects.every(object => this.#objects.find(object) !== 'absent')
    const credential = this.#revocations.credential({ expiresAt, isValid })
    return {
      identity: Object.freeze({ user: userOf(account, payload.jti ?? ''), credential }),
      audiences: [payload.aud ?? []].flat(),
      expiresAt,
      confirm: () => this.#objects.confirm(objects),
    }
  }

  async #publicKey({ kid }: JWTHeaderParameters) {
    const key = typeof kid === 'string' ? await this.#keys.find(kid) : undefined
    if (key === undefined)
      throw new ApiError('Unauthorized', 'the token is signed with a key that its issuer does not have')
    return key.publicKey
  }
}

function userOf(account: BoundObject, tokenId: string): UserInfo {
  const { serviceAccounts, authenticated } = systemGroups
  return Object.freeze({
    name: serviceAccountUser(account),
    uid: account.uid,
    groups: Object.freeze([serviceAccounts, `${serviceAccounts}:${account.namespace}`, authenticated]),
    extra: Object.freeze({ [credentialIdKey]: Object.freeze([`JTI=${tokenId}`]) }),
  })
}

/** Returns the objects in the claim, the account first. */
function objectsOf(claim: unknown): BoundObject[] {
  const { namespace, serviceaccount, secret } = recordOf(claim)
  if (typeof namespace !== 'string') return []
  const read = (plural: BoundObject['plural'], reference: unknown): BoundObject[] => {
    const { name, uid } = recordOf(reference)
    return typeof name === 'string' && typeof uid === 'string' ? [{ plural, namespace, name, uid }] : []
  }
  return [...read('serviceaccounts', serviceaccount), ...read('secrets', secret)]
}
