import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { deepEqual, quote, type ServedVersion } from '../../model/index.ts'
import { type AdmittedObject, applyJsonPatch } from '../../registry/index.ts'
import { type AdmissionAttributes, convert } from './attributes.ts'
import { internalFailure } from './denial.ts'
import type { Webhook } from './webhook.ts'
import type { WebhookCaller } from './webhook-caller.ts'
import type { WebhookMatcher } from './webhook-matcher.ts'

/** Asks mutating webhooks about a write, one after another, each about what the ones before have made. */
export class MutatingWebhooks {
  readonly #caller: WebhookCaller
  readonly #matcher: WebhookMatcher

  constructor(caller: WebhookCaller, matcher: WebhookMatcher) {
    this.#caller = caller
    this.#matcher = matcher
  }

  /**
   * Returns the object after all changes, in the version in which it was given. As in Kubernetes, a webhook that wants it is
   * called a second time if another one has changed the object after it.
   * @param endsAt monotonic time
   * @throws AdmissionError, ApiError
   */
  async ask(
    webhooks: readonly Webhook[],
    given: AdmissionAttributes,
    endsAt: number,
  ): Promise<AdmittedObject | undefined> {
    const earlier = new Set<Webhook>()
    const again = new Set<Webhook>()
    let attributes = given
    for (const round of [0, 1]) {
      for (const [index, webhook] of webhooks.entries()) {
        if (round > 0 && !again.has(webhook)) continue
        const version = await this.#matcher.versionFor(webhook, attributes)
        if (version === undefined) continue
        const next = await this.#askOne(webhook, attributes, version, endsAt, `round_${round}_index_${index}`)
        if (next !== attributes && !deepEqual(next.object, attributes.object)) {
          for (const each of earlier) again.add(each)
          earlier.clear()
        }
        attributes = next
        if (webhook.isReinvoked) earlier.add(webhook)
      }
      if (again.size === 0) break
    }
    const { object } = attributes
    if (attributes === given || object === undefined) return given.object
    return convert(object, given.versions, given.version)
  }

  async #askOne(
    webhook: Webhook,
    attributes: AdmissionAttributes,
    version: ServedVersion,
    endsAt: number,
    place: string,
  ): Promise<AdmissionAttributes> {
    const { notes } = attributes.request.options
    const response = await this.#caller.call(webhook, 'admit', attributes, version, endsAt)
    const patch = response?.patch ?? []
    const next = patch.length === 0 ? attributes : await patched(webhook, attributes, version, patch)
    const { configuration, name } = webhook
    const mutated = next !== attributes
    notes?.annotate(
      `mutation.webhook.admission.k8s.io/${place}`,
      JSON.stringify({ configuration, webhook: name, mutated }),
    )
    if (response === undefined)
      notes?.annotate(`failed-open.mutation.webhook.admission.k8s.io/${place}`, name)
    return next
  }
}

/** Applies the patch of a webhook, and then the defaults. @throws AdmissionError 500, whatever the failure policy is */
async function patched(
  { name }: Webhook,
  attributes: AdmissionAttributes,
  version: ServedVersion,
  patch: readonly unknown[],
): Promise<AdmissionAttributes> {
  const { object } = await attributes.in(version)
  const by = `admission webhook ${JSON.stringify(name)}`
  if (object === undefined)
    throw internalFailure(`${by} attempted to modify the object, which is not supported for this operation`)
  let result: unknown
  try {
    result = applyJsonPatch(object, patch, { replacesAbsent: true })
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw internalFailure(`${by} returned a patch that cannot be applied: ${problem}`, error)
  }
  if (deepEqual(result, object)) return attributes
  const { form } = attributes
  const taken = form && attributes.object ? form.take(attributes.object, result) : result
  const next = admittedOf(taken, form === undefined ? version : attributes.version, by)
  return attributes.with(version.schemas.withDefaults(next))
}

/**
 * Returns the object that a webhook has made of one. As in Kubernetes, it stays in its version.
 * @throws AdmissionError 500 if it is none; ApiError 422 if it is of another kind
 */
function admittedOf(value: unknown, { apiVersion, kind, group }: ServedVersion, by: string): AdmittedObject {
  const { metadata = {}, ...content } = isRecord(value) ? value : {}
  if (!isRecord(value) || !isRecord(metadata))
    throw internalFailure(`${by} made something else of the object than a ${kind}`)
  if (content.kind === kind) return { ...content, apiVersion, kind, metadata }
  const [name, given] = [String(metadata.name ?? ''), String(content.kind)]
  const cause = { reason: 'FieldValueInvalid', field: 'kind', message: `must be ${kind}` } as const
  const title = group === '' ? given : `${given}.${group}`
  throw new ApiError('Invalid', `${title} ${quote(name)} is invalid: kind: ${cause.message}`, {
    ...{ group, kind: given, name, causes: [cause] },
  })
}
