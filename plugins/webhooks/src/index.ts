/**
 * Delivers the changes of objects to HTTP receivers: signed, at least once, in order for each object. Each file is one
 * concept:
 *
 *     subscription.ts, dead-letter.ts    the kinds
 *     settings.ts                        what operators set: keys, networks, bounds
 *     dispatcher.ts                      a worker for each subscription, on the leader
 *     worker.ts                          the work on one subscription, and what it guarantees
 *     feed.ts                            the changes of one kind after a stored version
 *     backlog.ts                         deliveries that are not settled, in order for each object
 *     delivery.ts                        one message: id and body
 *     courier.ts                         one attempt, made of
 *       signature.ts                       the headers of Standard Webhooks
 *       target-slots.ts                    bounds of concurrent requests
 *       post.ts                            the request, to a target that the policy allows
 *     progress.ts, report.ts             the status
 *     dead-letters.ts                    giving up, within a bound
 *     retry-dead-letter.ts               trying again
 *
 * The state is in the status of the subscriptions: after a crash, deliveries continue from there.
 */
import { definePlugin, type Plugin, TargetPolicy } from '@setpoint/controller-runtime'
import { Courier } from './courier.ts'
import { DeadLetter } from './dead-letter.ts'
import { Dispatcher } from './dispatcher.ts'
import { declareMetrics } from './metrics.ts'
import { HttpPost, type Post } from './post.ts'
import { retryDeadLetters } from './retry-dead-letter.ts'
import { type Settings, settings } from './settings.ts'
import { SigningKeys } from './signature.ts'
import { Subscription } from './subscription.ts'
import { TargetSlots } from './target-slots.ts'

export { DeadLetter, type DeadLetterObject } from './dead-letter.ts'
export { Subscription, type SubscriptionObject, type SubscriptionStatus } from './subscription.ts'

/** The longest `drainSeconds` and the time to store the result. */
const drainTimeoutMs = 660_000

/** Concurrent runs. Those of deleted subscriptions wait until they are drained. */
const concurrency = 100

/** What tests replace. */
export interface Replacements {
  /** Instead of HTTP. */
  readonly post?: Post
  /** For the conformance suite, which passes no settings. */
  readonly settings?: Settings
}

/** Creates the plugin. */
export function webhooks(replaced: Replacements = {}): Plugin {
  return definePlugin({
    name: 'webhooks',
    models: [Subscription, DeadLetter],
    settings,
    permissions: [{ apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] }],
    setup(plugin) {
      const { clock, events } = plugin
      const given = replaced.settings ?? plugin.settings
      const { requestsPerTarget: perTarget, sharedRequests: shared } = given
      const http = new HttpPost({ policy: new TargetPolicy(given), clock })
      const metrics = declareMetrics(plugin.metrics)
      const random = () => plugin.random('backoff', 4).readUInt32BE() / 2 ** 32
      const courier = new Courier({
        keys: new SigningKeys(given.signingKeys),
        slots: new TargetSlots({ perTarget, shared }),
        post: replaced.post ?? http.post,
        clock,
        metrics,
      })
      const dispatcher = new Dispatcher({ courier, metrics, events, clock, random })

      plugin.runnable('deliver', context => dispatcher.run(context))
      plugin.controller(Subscription, controller =>
        controller
          .concurrency(concurrency)
          .timeoutMs(drainTimeoutMs)
          .reconcile(async subscription => dispatcher.apply(subscription))
          .finalize('webhooks.example.com/drain', async (subscription, { signal, log }) => {
            const left = await dispatcher.drain(subscription, signal)
            if (left === 0) return
            const message = `${left} or more changes were not delivered within ${subscription.spec.drainSeconds} s of the deletion`
            log.warn({ left }, 'a deleted subscription has undelivered changes')
            events.record(subscription, { type: 'Warning', reason: 'Undelivered', message })
          }),
      )
      plugin.controller(DeadLetter, controller => retryDeadLetters(controller, courier))
    },
  })
}

export default webhooks()
