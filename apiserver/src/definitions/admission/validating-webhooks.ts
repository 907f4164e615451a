import type { ServedVersion } from '../../model/index.ts'
import type { AdmissionAttributes } from './attributes.ts'
import type { Webhook } from './webhook.ts'
import type { WebhookCaller } from './webhook-caller.ts'
import type { WebhookMatcher } from './webhook-matcher.ts'

/**
 * Asks validating webhooks about a write, all at the same time. The first one in order that refuses the write decides, after all
 * have responded.
 * @param endsAt monotonic time
 * @throws AdmissionError, ApiError
 */
export async function askValidatingWebhooks(
  webhooks: readonly Webhook[],
  attributes: AdmissionAttributes,
  { caller, matcher }: { readonly caller: WebhookCaller; readonly matcher: WebhookMatcher },
  endsAt: number,
): Promise<void> {
  const relevant: { readonly webhook: Webhook; readonly version: ServedVersion }[] = []
  for (const webhook of webhooks) {
    const version = await matcher.versionFor(webhook, attributes)
    if (version !== undefined) relevant.push({ webhook, version })
  }
  const { notes } = attributes.request.options
  const calls = relevant.map(async ({ webhook, version }, index) => {
    const response = await caller.call(webhook, 'validating', attributes, version, endsAt)
    if (response !== undefined) return
    const key = `failed-open.validating.webhook.admission.k8s.io/round_0_index_${index}`
    notes?.annotate(key, webhook.name)
  })
  const outcomes = await Promise.allSettled(calls)
  const refusal = outcomes.find(outcome => outcome.status === 'rejected')
  if (refusal !== undefined) throw refusal.reason
}
