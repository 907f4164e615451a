import { ApiError } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import type { CacheEvent, Entry, LogFollower } from '../../cache/index.ts'
import { recordOf, recordsOf, textOf } from '../../kubernetes/index.ts'
import type { ServedModel } from '../../model/index.ts'
import type { AdmissionKinds } from './kinds/index.ts'
import { type Binding, type BoundPolicy, Policy, readBinding } from './policies.ts'
import { readWebhook, type Webhook } from './webhook.ts'

/** What is configured, in the order in which it is asked: by the names of the objects. */
export interface Configured {
  readonly mutating: readonly Webhook[]
  readonly validating: readonly Webhook[]
  /** Those with bindings. */
  readonly policies: readonly BoundPolicy[]
}

type NamedBinding = Binding & { readonly policyName: string }

/** The objects of one kind in this server's cache, as they are read. Reads each version once. */
class ReadObjects<T> {
  readonly #read: (name: string, object: Readonly<Record<string, unknown>>) => T
  readonly #objects = new Map<string, T>()

  constructor(read: (name: string, object: Readonly<Record<string, unknown>>) => T) {
    this.#read = read
  }

  get size(): number {
    return this.#objects.size
  }

  clear(): void {
    this.#objects.clear()
  }

  set({ name, bytes }: Entry): void {
    this.#objects.set(name, this.#read(name, recordOf(JSON.parse(bytes.toString()))))
  }

  delete(name: string): void {
    this.#objects.delete(name)
  }

  /** In the order of their names. */
  inOrder(): T[] {
    return [...this.#objects].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, object]) => object)
  }
}

/** The configurations of admission in this server's caches, which it follows. */
export class Configurations {
  readonly #mutating = new ReadObjects(readWebhooks)
  readonly #validating = new ReadObjects(readWebhooks)
  readonly #policies = new ReadObjects((name, { spec }) => new Policy(name, recordOf(spec)))
  readonly #bindings = new ReadObjects<NamedBinding>((name, { spec }) => readBinding(name, recordOf(spec)))
  #configured: Configured | undefined
  /** Until they are known. */
  #isActive = true
  #isComplete = false

  /** True if a webhook or a policy in force is configured, and while that is not known. */
  get isActive(): boolean {
    return this.#isActive
  }

  /** Follows the caches of the kinds, which must be complete. Returns a function that ends it. */
  follow(kinds: AdmissionKinds, follower: Pick<LogFollower, 'cacheOf'>): () => void {
    const stops = [
      this.#followKind(kinds.mutating, this.#mutating, follower),
      this.#followKind(kinds.validating, this.#validating, follower),
      this.#followKind(kinds.policies, this.#policies, follower),
      this.#followKind(kinds.bindings, this.#bindings, follower),
    ]
    this.#isComplete = true
    this.#changed()
    return () => {
      for (const stop of stops) stop()
    }
  }

  #followKind<T>(
    kind: ServedModel,
    objects: ReadObjects<T>,
    follower: Pick<LogFollower, 'cacheOf'>,
  ): () => void {
    const cache = follower.cacheOf(kind)
    if (cache === undefined) throw new Error(`${kind.title} has no cache`)
    const reset = () => {
      objects.clear()
      cache.store.snapshot().objects.forEachValue(entry => objects.set(entry))
      this.#changed()
    }
    const changed = ({ next, previous }: CacheEvent) => {
      if (next !== undefined) objects.set(next)
      else if (previous !== undefined) objects.delete(previous.name)
      this.#changed()
    }
    reset()
    return cache.observe({ changed, reset })
  }

  #changed(): void {
    this.#configured = undefined
    if (!this.#isComplete) return
    const webhooks = this.#mutating.size + this.#validating.size
    this.#isActive = webhooks > 0 || (this.#policies.size > 0 && this.#bindings.size > 0)
  }

  /** What is configured now. @throws ApiError 503 before the caches are followed */
  get present(): Configured {
    if (!this.#isComplete)
      throw new ApiError('ServiceUnavailable', 'the admission policies and webhooks are being read', {
        retryAfterSeconds,
      })
    this.#configured ??= {
      mutating: this.#mutating.inOrder().flat(),
      validating: this.#validating.inOrder().flat(),
      policies: this.#boundPolicies(),
    }
    return this.#configured
  }

  #boundPolicies(): BoundPolicy[] {
    const byPolicy = new Map<string, Binding[]>()
    for (const binding of this.#bindings.inOrder()) {
      const bound = byPolicy.get(binding.policyName) ?? []
      byPolicy.set(binding.policyName, [...bound, binding])
    }
    return this.#policies.inOrder().flatMap(policy => {
      const bindings = byPolicy.get(policy.name)
      return bindings === undefined ? [] : [{ policy, bindings }]
    })
  }
}

function readWebhooks(
  configuration: string,
  { webhooks }: Readonly<Record<string, unknown>>,
): readonly Webhook[] {
  return recordsOf(webhooks)
    .filter(({ name }) => textOf(name) !== '')
    .map(webhook => readWebhook(configuration, webhook))
}
