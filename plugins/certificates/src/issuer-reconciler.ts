import {
  type ControllerBuilder,
  type DeepReadonly,
  type EventRecorder,
  getCondition,
  type MergePatch,
  type ReconcileContext,
  type ReconcileResult,
  setCondition,
} from '@setpoint/controller-runtime'
import { isoOf, readAuthority } from './authority.ts'
import { Issuer, type IssuerObject } from './issuer.ts'
import { KeyPair, withoutPrivateKeys } from './key-pair.ts'
import { Refusal } from './refusal.ts'
import { RevocationList } from './revocation-list.ts'
import { type Revocations, refreshTimeOf } from './revocations.ts'
import { isChange } from './status-change.ts'

/** What the controller of issuers needs besides its context. */
interface IssuerServices {
  readonly passphrase: string | undefined
  readonly events: Pick<EventRecorder, 'record'>
  readonly revocations: Revocations
}

type IssuerStatus = NonNullable<IssuerObject['status']>

interface Verdict {
  readonly ready: boolean
  readonly reason: string
  readonly message: string
  readonly ca: MergePatch<IssuerStatus>['ca']
  /** When to look again, in ms. */
  readonly next?: number
}

/** Builds the controller, which finds out whether issuers can sign, and keeps the CRLs of CAs. */
export function superviseIssuers(
  controller: ControllerBuilder<IssuerObject>,
  services: IssuerServices,
): void {
  controller
    .owns(RevocationList)
    .watches(
      KeyPair,
      async ({ metadata }, { lister }) => {
        const issuers = (await lister(Issuer)).byIndex('spec.ca.keyPairName', metadata.name)
        return issuers.map(issuer => issuer.metadata.name)
      },
      withoutPrivateKeys,
    )
    .reconcile(async (issuer, context) => {
      // Its revocation list is being deleted with it.
      if (issuer.metadata.deletionTimestamp !== undefined) return undefined
      const verdict = await judge(issuer, context, services)
      await report(issuer, verdict, context, services)
      return resultOf(verdict, context)
    })
}

/** Returns whether the issuer can sign. If it is a CA that can, also brings its CRL up to date. */
async function judge(
  issuer: DeepReadonly<IssuerObject>,
  context: ReconcileContext,
  { passphrase, revocations }: IssuerServices,
): Promise<Verdict> {
  const { client, clock, signal } = context
  const { ca } = issuer.spec
  if (ca === undefined) {
    const message = 'each certificate is signed with its own key'
    return { ready: true, reason: 'SelfSigned', message, ca: null }
  }
  try {
    const authority = await readAuthority(ca.keyPairName, { client, signal, passphrase, now: clock.now() })
    const { crl } = (await revocations.update(issuer, authority, [], context)).spec
    const { fingerprint, notAfter } = authority
    const subject = authority.certificate.subject.replaceAll('\n', ', ')
    return {
      ready: true,
      reason: 'Signing',
      message: `${subject} signs until ${isoOf(notAfter)}`,
      ca: { subject, notAfter: isoOf(notAfter), fingerprint },
      next: Math.min(notAfter, crl === undefined ? notAfter : refreshTimeOf(crl)),
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { reason, message, until } = error
    return { ready: false, reason, message, ca: null, next: until }
  }
}

async function report(
  issuer: DeepReadonly<IssuerObject>,
  { ready, reason, message, ca }: Verdict,
  { client, clock, signal }: ReconcileContext,
  { events }: IssuerServices,
): Promise<void> {
  const { generation, version } = issuer.metadata
  const before = issuer.status?.conditions
  const status = ready ? 'True' : 'False'
  if (!ready && getCondition(before, 'Ready')?.reason !== reason)
    events.record(issuer, { type: 'Warning', reason, message })
  const condition = { type: 'Ready', status, reason, message, observedGeneration: generation } as const
  const conditions = setCondition(before, condition, clock)
  const patch = { conditions, ca }
  // Conflicts if the issuer has changed meanwhile.
  if (isChange(issuer.status, patch)) await client.patchStatus(Issuer, issuer, patch, { version, signal })
}

function resultOf({ next }: Verdict, { clock }: ReconcileContext): ReconcileResult | undefined {
  return next === undefined ? undefined : { requeueAfterMs: Math.max(0, next - clock.now()) }
}
