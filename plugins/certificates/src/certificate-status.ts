import {
  type Clock,
  type Condition,
  type DeepReadonly,
  type MergePatch,
  setCondition,
} from '@setpoint/controller-runtime'
import { isoOf } from './authority.ts'
import { type CertificateObject, type CertificateStatus, certificateDefaults } from './certificate.ts'
import { fingerprintOf, serialOf } from './chain.ts'
import type { Issued } from './issuance.ts'
import type { Refusal } from './refusal.ts'

/** What a run has found or done. */
export interface Outcome {
  /** The stored certificate. */
  readonly issued: Issued | undefined
  /** Why no other one could be issued, if one is due. */
  readonly refusal?: Refusal
  /** Whether another run is needed at once. */
  readonly isUnfinished?: boolean
}

/** A certificate that a CA has signed. */
export type SignedCertificate = NonNullable<CertificateStatus['superseded']>[number]

/** Returns the patch of the status; null removes what no longer applies. */
export function statusOf(
  certificate: DeepReadonly<CertificateObject>,
  outcome: Outcome,
  superseded: readonly SignedCertificate[],
  clock: Pick<Clock, 'now'>,
): MergePatch<CertificateStatus> {
  const { metadata, status } = certificate
  const { issued } = outcome
  const conditions = [readyOf(outcome, clock.now()), issuingOf(outcome)].reduce<readonly Condition[]>(
    (all, each) => setCondition(all, { ...each, observedGeneration: metadata.generation }, clock),
    status?.conditions ?? [],
  )
  return {
    conditions,
    serial: issued === undefined ? null : serialOf(issued.leaf),
    issuer: issued?.issuer ?? null,
    notBefore: issued === undefined ? null : isoOf(issued.notBefore),
    notAfter: issued === undefined ? null : isoOf(issued.notAfter),
    renewalTime: issued === undefined ? null : isoOf(issued.renewal),
    fingerprint: issued === undefined ? null : fingerprintOf(issued.leaf),
    superseded: superseded.length === 0 ? null : superseded,
  }
}

type Aspect = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>

/** Ready: there is a certificate as the spec asks for, and it is valid. */
function readyOf({ issued, refusal }: Outcome, now: number): Aspect {
  if (issued?.isWanted !== true) {
    const { reason = 'NotIssued', message = 'no certificate has been issued' } = refusal ?? {}
    return { type: 'Ready', status: 'False', reason, message }
  }
  const message = `serial ${serialOf(issued.leaf)}, valid until ${isoOf(issued.notAfter)}`
  return now < issued.notAfter
    ? { type: 'Ready', status: 'True', reason: 'Issued', message }
    : { type: 'Ready', status: 'False', reason: 'Expired', message }
}

/** Issuing: another certificate is due, and something is in its way. */
function issuingOf({ refusal }: Outcome): Aspect {
  return refusal === undefined
    ? { type: 'Issuing', status: 'False', reason: 'UpToDate', message: 'no other certificate is due' }
    : { type: 'Issuing', status: 'True', reason: refusal.reason, message: refusal.message }
}

/**
 * Returns the replaced certificates that have not expired, newest last, and those beyond the limit, which are to be
 * revoked: nothing remembers them.
 */
export function supersededOf(
  { status }: DeepReadonly<CertificateObject>,
  issued: Issued | undefined,
  now: number,
): { superseded: readonly SignedCertificate[]; forgotten: readonly SignedCertificate[] } {
  const serial = issued === undefined ? undefined : serialOf(issued.leaf)
  const all = signedOf(status).filter(each => each.serial !== serial && Date.parse(each.notAfter) > now)
  const excess = Math.max(0, all.length - certificateDefaults.superseded)
  return { superseded: all.slice(excess), forgotten: all.slice(0, excess) }
}

/** Returns all certificates that a status mentions. */
export function signedOf(status: DeepReadonly<CertificateStatus> | undefined): readonly SignedCertificate[] {
  const { superseded = [], serial, issuer, notAfter } = status ?? {}
  const current = serial === undefined || issuer === undefined || notAfter === undefined
  return current ? superseded : [...superseded, { serial, issuer, notAfter }]
}
