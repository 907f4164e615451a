import { isConditionTrue } from '@setpoint/controller-runtime'
import { reconcilerConformance } from '@setpoint/controller-runtime/testing'
import { describe, test } from 'vitest'
import { Subscription, type SubscriptionObject, webhooks } from './index.ts'
import type { Post } from './post.ts'
import { Item } from './testing/item.ts'
import { testKey } from './testing/receiver.ts'

const settings = {
  signingKeys: { main: testKey },
  allowedHosts: [],
  deniedNetworks: [],
  allowedNetworks: [],
  requestsPerTarget: 8,
  sharedRequests: 64,
}

/** A receiver in memory. */
class Inbox {
  /** The types of the messages by subscription. */
  readonly #types = new Map<string, Set<string>>()

  readonly post: Post = async ({ body }) => {
    const { type, data }: { type: string; data: { subscription: string } } = JSON.parse(body)
    const types = this.#types.get(data.subscription) ?? new Set()
    this.#types.set(data.subscription, types.add(type))
    return {}
  }

  typesOf(subscription: string): string[] {
    return [...(this.#types.get(subscription) ?? [])]
  }
}

describe('the subscription reconciler', () => {
  reconcilerConformance<SubscriptionObject, Inbox>({
    model: Subscription,
    models: [Item],
    plugin: ({ outside }) => webhooks({ post: outside.post, settings }),
    outside: () => new Inbox(),
    objects: () =>
      ['a', 'b', 'c'].map(name => ({
        metadata: { name },
        spec: {
          kinds: [{ apiVersion: 'items.example.com/v1', kind: 'Item' }],
          url: 'https://example.com/',
          signingKey: 'main',
          // A message even without any item.
          replay: { fromVersion: '0' },
        },
      })),
    changes: () => [{ spec: { timeoutSeconds: 5 } }, { spec: { maxAttempts: 3 } }],
    isConverged: ({ object: { metadata, status }, outside }) =>
      status?.observedGeneration === metadata.generation &&
      isConditionTrue(status.conditions, 'Ready') &&
      outside.typesOf(metadata.name).includes('Item.resynced'),
    isCleanedUp: () => true,
    world: async ({ client, outside }) =>
      (await client.list(Subscription)).items.map(({ metadata, status }) => ({
        types: outside.typesOf(metadata.name),
        conditions: status?.conditions?.map(({ type, status }) => [type, status]),
      })),
  }).register(test.concurrent)
})
