import { createHash } from 'node:crypto'
import { type ApiObject, objectKey } from '@setpoint/controller-runtime'
import { pluralOf, type SubscribedKind, type SubscriptionObject } from './subscription.ts'

/**
 * What a delivery tells:
 *
 *     added, modified, deleted    a change, as in a watch with the selectors of the subscription
 *     resync                      the current state of an object, because changes before it can no longer be read
 *     resynced                    the resync is complete: other objects of the kind no longer exist or no longer match
 */
type DeliveryEvent = 'added' | 'modified' | 'deleted' | 'resync' | 'resynced'

/** One message to a receiver. */
export interface Delivery {
  /** The webhook-id: the same for every attempt, and after a restart. It has no full stop. */
  readonly id: string
  /** Deliveries of one object have the same key and are sent one after another. */
  readonly key: string
  /** The kind and name, with the namespace if there is one. For people. */
  readonly object: string
  readonly version: string
  /** JSON. */
  readonly body: string
  /** As long as this delivery is pending, the cursor of its kind is at most this version. */
  readonly floor: string
}

/** A message before it is one. */
export interface DeliveryInput {
  readonly subscription: SubscriptionObject
  readonly kind: SubscribedKind
  readonly event: DeliveryEvent
  /** The version of the change, or that of the resync. */
  readonly version: string
  /** Absent for `resynced`. */
  readonly object?: ApiObject
  readonly floor: string
}

/** The type of a message in Standard Webhooks, for example `Probe.modified`. */
export function deliveryOf({ subscription, kind, event, version, object, floor }: DeliveryInput): Delivery {
  const isResync = event === 'resync' || event === 'resynced'
  const { metadata } = subscription
  const of = object?.metadata
  const data = {
    subscription: metadata.name,
    event,
    apiVersion: kind.apiVersion,
    kind: kind.kind,
    namespace: of?.namespace,
    name: of?.name,
    uid: of?.uid,
    version: of?.version ?? version,
    resync: isResync ? version : undefined,
    object,
  }
  const key = of === undefined ? '' : objectKey(of)
  const resource = `${kind.apiVersion}/${pluralOf(kind)}`
  const parts = isResync ? [metadata.uid, resource, event, version, key] : [metadata.uid, resource, version]
  return {
    id: `msg_${createHash('sha256').update(parts.join(' ')).digest('hex').slice(0, 32)}`,
    key: `${resource}/${key}`,
    object: key === '' ? `resync of ${kind.kind}` : `${kind.kind} ${key}`,
    version: data.version,
    body: JSON.stringify({ type: `${kind.kind}.${event}`, data }),
    floor,
  }
}
