import {
  type ControllerBuilder,
  type DeepReadonly,
  isNotFound,
  type ReconcileContext,
  type ReconcileResult,
  setCondition,
} from '@setpoint/controller-runtime'
import type { Courier } from './courier.ts'
import { DeadLetter, type DeadLetterObject, sealedContent } from './dead-letter.ts'
import { backoffMs, Subscription } from './subscription.ts'

/** The longest time-out of a subscription (60 s) and the wait for a slot. */
const runTimeoutMs = 120_000

/**
 * Builds the controller that sends the dead letters whose `spec.retry` is true, and deletes those that are accepted.
 */
export function retryDeadLetters(controller: ControllerBuilder<DeadLetterObject>, courier: Courier): void {
  controller
    .timeoutMs(runTimeoutMs)
    .reconcile((letter, context) =>
      letter.spec.retry && letter.metadata.deletionTimestamp === undefined
        ? retry(letter, courier, context)
        : undefined,
    )
}

async function retry(
  letter: DeepReadonly<DeadLetterObject>,
  courier: Courier,
  { client, signal, clock, random }: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const { metadata, spec, status } = letter
  const subscription = await client.getIfExists(Subscription, spec.subscription, { signal })
  // It is deleted together with its subscription.
  if (subscription === undefined) return undefined
  const report = async (retries: number, reason: string, message: string) => {
    const condition = { type: 'Delivered', status: 'False', reason, message } as const
    const conditions = setCondition(status?.conditions, condition, clock)
    const { version } = metadata
    await client.patchStatus(DeadLetter, letter, { retries, conditions }, { version, signal })
  }
  const retries = status?.retries ?? 0
  if (spec.payload === undefined) {
    await report(
      retries,
      'NoPayload',
      'the payload was too large to be stored: replay from an earlier version',
    )
    return undefined
  }
  const sealed = sealedContent(subscription.metadata.uid, spec.id, spec.payload)
  if (!courier.keys.isSealed(sealed, spec.seal ?? '')) {
    await report(
      retries,
      'NotSealed',
      'no key of the setting signingKeys has sealed it: the plugin has not made it, or the key was removed; replay from an earlier version',
    )
    return undefined
  }
  const message = { id: spec.id, body: JSON.stringify(spec.payload) }
  const { failure } = await courier.attempt(subscription, message, { waiting: signal, sending: signal })
  if (failure !== undefined) {
    await report(retries + 1, 'Failed', failure)
    const fraction = random('backoff', 4).readUInt32BE() / 2 ** 32
    return { requeueAfterMs: backoffMs(subscription.spec.backoff, retries + 1, fraction) }
  }
  const preconditions = { uid: metadata.uid }
  await client.delete(DeadLetter, metadata.name, { preconditions, signal }).catch((error: unknown) => {
    if (!isNotFound(error)) throw error
  })
  return undefined
}
