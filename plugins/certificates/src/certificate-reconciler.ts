import {
  anyChange,
  type ControllerBuilder,
  type DeepReadonly,
  type EventRecorder,
  getCondition,
  isOwnedBy,
  type ReconcileContext,
  type ReconcileResult,
  setCondition,
} from '@setpoint/controller-runtime'
import { isoOf } from './authority.ts'
import { Certificate, type CertificateObject, keyNameOf } from './certificate.ts'
import {
  type Outcome,
  type SignedCertificate,
  signedOf,
  statusOf,
  supersededOf,
} from './certificate-status.ts'
import { readChain, serialOf, validityOf } from './chain.ts'
import {
  type Cause,
  causeOf,
  type IssueContext,
  type Issued,
  issue,
  issuedOf,
  readStored,
  type Stored,
} from './issuance.ts'
import { Issuer, type IssuerObject } from './issuer.ts'
import { KeyPair, type KeyPairObject, withoutPrivateKeys } from './key-pair.ts'
import { Refusal } from './refusal.ts'
import { ListFullError, type Revocations } from './revocations.ts'
import { isChange } from './status-change.ts'

/** What the controller of certificates needs besides its context. */
interface CertificateServices extends Pick<IssueContext, 'passphrase' | 'crlUrlOf'> {
  readonly events: Pick<EventRecorder, 'record'>
  readonly revocations: Revocations
}

/** Builds the controller, which issues and renews certificates, and revokes those of deleted objects. */
export function superviseCertificates(
  controller: ControllerBuilder<CertificateObject>,
  services: CertificateServices,
): void {
  controller
    .watches(
      Issuer,
      async ({ metadata }, { lister }) => {
        const certificates = (await lister(Certificate)).byIndex('spec.issuerRef.name', metadata.name)
        return certificates.map(certificate => certificate.metadata.name)
      },
      // An issuer's status tells whether it can sign.
      { filter: anyChange },
    )
    .watches(
      KeyPair,
      async ({ metadata }, { lister }) => {
        const certificates = (await lister(Certificate)).byIndex('spec.keyRef.name', metadata.name)
        return certificates.map(certificate => certificate.metadata.name)
      },
      withoutPrivateKeys,
    )
    .reconcile((certificate, context) => reconcile(certificate, context, services))
    .finalize('certificates.example.com/revocation', (certificate, context) =>
      revokeAll(certificate, context, services),
    )
}

async function reconcile(
  certificate: DeepReadonly<CertificateObject>,
  context: ReconcileContext,
  services: CertificateServices,
): Promise<ReconcileResult | undefined> {
  const { client, clock, signal, lister } = context
  const issuer = (await lister(Issuer)).get(certificate.spec.issuerRef.name)
  const outcome = await ensureIssued(certificate, issuer, context, services)
  const { superseded, forgotten } = supersededOf(certificate, outcome.issued, clock.now())
  if (forgotten.length > 0) await services.revocations.revoke(forgotten, context)
  const { version } = certificate.metadata
  const patch = statusOf(certificate, outcome, superseded, clock)
  // Conflicts if the certificate has changed or was recreated meanwhile.
  if (isChange(certificate.status, patch))
    await client.patchStatus(Certificate, certificate, patch, { version, signal })
  return nextRun(outcome, clock.now())
}

/** Issues a certificate if one is due. */
async function ensureIssued(
  certificate: DeepReadonly<CertificateObject>,
  issuer: DeepReadonly<IssuerObject> | undefined,
  { client, clock, random, signal }: ReconcileContext,
  { passphrase, crlUrlOf, events }: CertificateServices,
): Promise<Outcome> {
  const issuing = { client, clock, random, signal, passphrase, crlUrlOf }
  let stored: Stored | undefined
  try {
    stored = await readStored(certificate, issuing)
    const cause = causeOf(certificate, stored, issuer, clock.now())
    const held = issuedOf(certificate, stored)
    if (cause === undefined) return { issued: held }
    // After a crash the status may lack the certificate. It has to be there before it is replaced, to be revoked later.
    if (held !== undefined && certificate.status?.serial !== serialOf(held.leaf))
      return { issued: held, isUnfinished: true }
    stored = await issue(certificate, stored, issuer, issuing)
    const issued = issuedOf(certificate, stored)
    if (issued !== undefined) events.record(certificate, eventOf(cause, issued))
    return { issued }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { reason, message } = error
    if (getCondition(certificate.status?.conditions, 'Issuing')?.reason !== reason)
      events.record(certificate, { type: 'Warning', reason, message })
    return { issued: issuedOf(certificate, stored), refusal: error }
  }
}

const eventsByCause: Readonly<Record<Cause, { reason: string; why: string }>> = {
  Missing: { reason: 'Issued', why: '' },
  Renewal: { reason: 'Renewed', why: '' },
  SpecChanged: { reason: 'Reissued', why: ', because the spec has changed' },
  IssuerChanged: { reason: 'Reissued', why: ', because the issuer has another CA' },
}

function eventOf(cause: Cause, { leaf, notAfter }: Issued): { reason: string; message: string } {
  const { reason, why } = eventsByCause[cause]
  return { reason, message: `issued serial ${serialOf(leaf)}, valid until ${isoOf(notAfter)}${why}` }
}

/** When the renewal is due, or the certificate expires because the renewal is impossible. */
function nextRun({ issued, refusal, isUnfinished }: Outcome, now: number): ReconcileResult | undefined {
  if (isUnfinished) return { requeueAfterMs: 0 }
  if (issued === undefined) return undefined
  const next = [issued.renewal, issued.notAfter, refusal?.until ?? now].filter(time => time > now)
  return next.length === 0 ? undefined : { requeueAfterMs: Math.min(...next) - now }
}

/** Revokes every certificate that the object has had and that has not expired. */
async function revokeAll(
  certificate: DeepReadonly<CertificateObject>,
  context: ReconcileContext,
  services: CertificateServices,
): Promise<void> {
  const { client, clock, signal } = context
  const { revocations } = services
  const known = signedOf(certificate.status)
  // A crash may have left a certificate that no status mentions.
  const keyPair = await client.getIfExists(KeyPair, keyNameOf(certificate), { signal })
  const held = keyPair !== undefined && isOwnedBy(keyPair, certificate) ? signedIn(keyPair) : []
  const valid = [...known, ...held].filter(({ notAfter }) => Date.parse(notAfter) > clock.now())
  try {
    await revocations.revoke(valid, context)
  } catch (error) {
    if (error instanceof ListFullError) await report(certificate, error.message, context, services)
    throw error
  }
}

/** Says why a deleted certificate stays. */
async function report(
  certificate: DeepReadonly<CertificateObject>,
  message: string,
  { client, clock, signal }: ReconcileContext,
  { events }: CertificateServices,
): Promise<void> {
  const { metadata, status } = certificate
  const reason = 'RevocationListFull'
  events.record(certificate, { type: 'Warning', reason, message })
  const condition = {
    type: 'Ready',
    status: 'False',
    reason,
    message,
    observedGeneration: metadata.generation,
  } as const
  const conditions = setCondition(status?.conditions, condition, clock)
  await client.patchStatus(Certificate, certificate, { conditions }, { signal })
}

function signedIn({ spec }: KeyPairObject): readonly SignedCertificate[] {
  const [leaf] = readChain(spec.certificate)
  if (leaf === undefined || spec.issued === undefined) return []
  return [{ serial: serialOf(leaf), issuer: spec.issued.issuer, notAfter: isoOf(validityOf(leaf).notAfter) }]
}
