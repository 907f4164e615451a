import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { ServedVersion } from '../../model/index.ts'
import type {
  Admission,
  AdmissionRequest,
  AdmittedFrom,
  AdmittedObject,
  WriteAdmission,
} from '../../registry/index.ts'
import { AdmissionAttributes } from './attributes.ts'
import type { Configurations, Configured } from './configurations.ts'
import { admissionGroup } from './kinds/index.ts'
import { MutatingWebhooks } from './mutating-webhooks.ts'
import { type BoundPolicy, PolicyReview, type PolicySources } from './policies.ts'
import { type RuleSubject, subjectOf } from './rules.ts'
import { versionFor } from './selection.ts'
import { askValidatingWebhooks } from './validating-webhooks.ts'
import type { Webhook } from './webhook.ts'
import type { WebhookCaller } from './webhook-caller.ts'
import { WebhookMatcher } from './webhook-matcher.ts'

export const admissionDefaults = Object.freeze({
  /** Milliseconds for the admission of a write, whatever the webhooks' own times are: those of a request in Kubernetes. */
  writeMs: 34_000,
})

interface AdmissionParts {
  readonly configurations: Pick<Configurations, 'isActive' | 'present'>
  readonly caller: WebhookCaller
  readonly sources: PolicySources
  readonly clock?: Clock
}

/** The admission of writes as the objects of `admissionregistration.k8s.io` configure it. */
export class ConfiguredAdmission implements Admission {
  readonly #parts: AdmissionParts

  constructor(parts: AdmissionParts) {
    this.#parts = parts
  }

  get isActive(): boolean {
    return this.#parts.configurations.isActive
  }

  /**
   * The objects that configure admission are not subject to it: a mistake in one of them can always be corrected.
   * @throws ApiError 503 while the configuration is being read
   */
  begin(request: AdmissionRequest): WriteAdmission | undefined {
    if (request.served.model.group === admissionGroup) return undefined
    const subject = subjectOf(new AdmissionAttributes(request, undefined, undefined))
    const relevant = relevantTo(subject, request.served.versions, this.#parts.configurations.present)
    return relevant && new ConfiguredWrite(request, relevant, this.#parts)
  }
}

/** Returns what may be asked about a write, or undefined if there is nothing. A new object may not have its name yet. */
function relevantTo(
  subject: RuleSubject,
  versions: readonly ServedVersion[],
  { mutating, validating, policies }: Configured,
): Configured | undefined {
  const isAsked = ({ selection }: Webhook | BoundPolicy['policy']) =>
    versionFor(selection, subject, versions) !== undefined
  const mayHaveNames = subject.name === ''
  const relevant = {
    mutating: mutating.filter(isAsked),
    validating: validating.filter(isAsked),
    policies: mayHaveNames ? policies : policies.filter(({ policy }) => isAsked(policy)),
  }
  const { mutating: first, validating: second, policies: third } = relevant
  return first.length + second.length + third.length === 0 ? undefined : relevant
}

/** The admission of one write. It ends in time, whatever the webhooks do. */
class ConfiguredWrite implements WriteAdmission {
  readonly #request: AdmissionRequest
  readonly #configured: Configured
  readonly #parts: AdmissionParts
  readonly #matcher: WebhookMatcher
  readonly #endsAt: number

  constructor(request: AdmissionRequest, configured: Configured, parts: AdmissionParts) {
    const { clock = systemClock } = parts
    this.#request = request
    this.#configured = configured
    this.#parts = parts
    this.#matcher = new WebhookMatcher(parts.sources)
    this.#endsAt = clock.monotonic() + admissionDefaults.writeMs
  }

  async mutate(
    object: AdmittedObject | undefined,
    from: AdmittedFrom | undefined,
  ): Promise<AdmittedObject | undefined> {
    const { mutating } = this.#configured
    if (mutating.length === 0) return object
    const attributes = new AdmissionAttributes(this.#request, object, from)
    return new MutatingWebhooks(this.#parts.caller, this.#matcher).ask(mutating, attributes, this.#endsAt)
  }

  async validate(object: AdmittedObject | undefined, from: AdmittedFrom | undefined): Promise<void> {
    const { policies, validating } = this.#configured
    const attributes = new AdmissionAttributes(this.#request, object, from)
    if (policies.length > 0)
      await new PolicyReview(attributes, subjectOf(attributes), this.#parts.sources).ask(policies)
    if (validating.length === 0) return
    const asking = { caller: this.#parts.caller, matcher: this.#matcher }
    await askValidatingWebhooks(validating, attributes, asking, this.#endsAt)
  }
}
