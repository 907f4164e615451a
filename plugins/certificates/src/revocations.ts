import { createHash } from 'node:crypto'
import {
  type Client,
  type Clock,
  type DeepReadonly,
  setControllerReference,
} from '@setpoint/controller-runtime'
import { type Authority, isoOf, readAuthority } from './authority.ts'
import type { SignedCertificate } from './certificate-status.ts'
import { Issuer, type IssuerObject } from './issuer.ts'
import { Refusal } from './refusal.ts'
import {
  RevocationList,
  type RevocationListObject,
  type RevokedCertificate,
  revocationDefaults,
} from './revocation-list.ts'

/** A certificate to revoke, and when it expires. */
type Revocable = Pick<SignedCertificate, 'serial' | 'notAfter'>

interface Context {
  readonly client: Client
  readonly clock: Pick<Clock, 'now'>
  readonly signal: AbortSignal
}

/** A write that has not begun: others can add to it. */
interface Batch {
  readonly added: Revocable[]
  readonly done: Promise<RevocationListObject>
}

/** No certificate of the issuer can be revoked until others have expired. */
export class ListFullError extends Error {
  override readonly name = 'ListFullError'

  constructor(issuer: string) {
    super(
      `the revocation list of issuer ${JSON.stringify(issuer)} has ${revocationDefaults.entries} certificates, the most that fit`,
    )
  }
}

type Crl = NonNullable<RevocationListObject['spec']['crl']>

/**
 * Keeps the revocation lists of issuers.
 *
 * A list is signed as a whole, so the cost of a write grows with the list. Therefore writes of one list follow each
 * other, and what is revoked meanwhile goes into the next write.
 */
export class Revocations {
  /** By the issuer's uid. */
  readonly #next = new Map<string, Batch>()
  readonly #running = new Map<string, Promise<unknown>>()
  readonly #passphrase: string | undefined

  /** @param passphrase of the keys of CAs, if they are encrypted */
  constructor(passphrase: string | undefined) {
    this.#passphrase = passphrase
  }

  /**
   * Revokes certificates: puts them on the lists of their issuers. Does nothing for issuers that do not exist or are no
   * CA. If a CA cannot sign at the moment, the list has them, and the CRL when the CA is back.
   */
  async revoke(certificates: readonly SignedCertificate[], context: Context): Promise<void> {
    const { client, clock, signal } = context
    for (const name of new Set(certificates.map(each => each.issuer))) {
      const issuer = await client.getIfExists(Issuer, name, { signal })
      if (issuer?.spec.ca === undefined) continue
      const reading = { client, signal, passphrase: this.#passphrase, now: clock.now() }
      const authority = await readAuthority(issuer.spec.ca.keyPairName, reading).catch((error: unknown) => {
        if (error instanceof Refusal) return undefined
        throw error
      })
      const ofIssuer = certificates.filter(each => each.issuer === name)
      await this.update(issuer, authority, ofIssuer, context)
    }
  }

  /**
   * Adds certificates to the list of an issuer, drops those that have long expired, and signs the list again if that is
   * needed. Without an authority the list is not signed: that happens when the issuer is ready.
   * @throws ListFullError
   */
  async update(
    issuer: DeepReadonly<IssuerObject>,
    authority: Authority | undefined,
    added: readonly Revocable[],
    context: Context,
  ): Promise<RevocationListObject> {
    const { uid } = issuer.metadata
    const waiting = this.#next.get(uid)
    if (waiting !== undefined) {
      waiting.added.push(...added)
      return waiting.done
    }
    const batch = [...added]
    const before = this.#running.get(uid) ?? Promise.resolve()
    const done = before
      .catch(() => {})
      .then(() => {
        this.#next.delete(uid)
        return write(issuer, authority, batch, context)
      })
    this.#next.set(uid, { added: batch, done })
    this.#running.set(uid, done)
    const forget = () => {
      if (this.#running.get(uid) === done) this.#running.delete(uid)
    }
    done.then(forget, forget)
    return done
  }
}

async function write(
  issuer: DeepReadonly<IssuerObject>,
  authority: Authority | undefined,
  added: readonly Revocable[],
  { client, clock, signal }: Context,
): Promise<RevocationListObject> {
  const { name } = issuer.metadata
  const { object } = await client.createOrUpdate(
    RevocationList,
    name,
    async draft => {
      const now = clock.now()
      const revoked = merge(draft.spec.revoked ?? [], added, now)
      if (revoked.length > revocationDefaults.entries) throw new ListFullError(name)
      draft.spec.revoked = revoked
      if (authority !== undefined && isOutdated(draft.spec.crl, revoked, authority, now))
        draft.spec.crl = await sign(draft.spec.crl, revoked, authority, now)
      return setControllerReference(issuer, draft)
    },
    { signal },
  )
  return object
}

/** Returns the revoked certificates with the added ones, each once, without those that no list needs any more. */
function merge(
  present: readonly RevokedCertificate[],
  added: readonly Revocable[],
  now: number,
): RevokedCertificate[] {
  const bySerial = new Map(present.map(each => [each.serial, each]))
  const revokedAt = isoOf(now)
  for (const { serial, notAfter } of added) {
    if (!bySerial.has(serial)) bySerial.set(serial, { serial, revokedAt, notAfter })
  }
  // A certificate stays on one more list after it has expired (RFC 5280, 3.3).
  return [...bySerial.values()].filter(
    ({ notAfter }) => Date.parse(notAfter) + revocationDefaults.lifetimeMs > now,
  )
}

function isOutdated(
  crl: Crl | undefined,
  revoked: readonly RevokedCertificate[],
  { fingerprint }: Authority,
  now: number,
): boolean {
  return (
    crl === undefined ||
    crl.authority !== fingerprint ||
    crl.digest !== digestOf(revoked) ||
    now >= refreshTimeOf(crl)
  )
}

/** When a CRL is signed again although nothing has changed, in ms. */
export function refreshTimeOf({ thisUpdate }: Pick<Crl, 'thisUpdate'>): number {
  return Date.parse(thisUpdate) + revocationDefaults.refreshMs
}

async function sign(
  before: Crl | undefined,
  revoked: readonly RevokedCertificate[],
  authority: Authority,
  now: number,
): Promise<Crl> {
  // Only here, since the library takes a while to load.
  const { signRevocationList } = await import('./x509.ts')
  // Rises even if the list is deleted and made again.
  const number = Math.max(Math.floor(now / 1000), (before?.number ?? 0) + 1)
  const thisUpdate = new Date(Math.floor(now / 1000) * 1000)
  const nextUpdate = new Date(thisUpdate.getTime() + revocationDefaults.lifetimeMs)
  return {
    pem: await signRevocationList({ revoked, number, thisUpdate, nextUpdate, authority }),
    number,
    thisUpdate: thisUpdate.toISOString(),
    nextUpdate: nextUpdate.toISOString(),
    authority: authority.fingerprint,
    digest: digestOf(revoked),
  }
}

function digestOf(revoked: readonly RevokedCertificate[]): string {
  const text = revoked.map(({ serial, revokedAt }) => `${serial} ${revokedAt}\n`).join('')
  return createHash('sha256').update(text).digest('hex')
}
