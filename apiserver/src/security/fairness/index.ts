/**
 * Fairness between identities. Requests pass while a turn of the event loop has time left; otherwise they wait in the queue
 * of their class, where identities take turns by the processor time of their requests. Every queue has a bound, and a
 * request that waits for too long gets 429. See docs/decisions/0017-fair-queues.md.
 */
export type { BodyBounds, BodyMemory, HeldBody } from './body-memory.ts'
export * from './request-class.ts'
export * from './request-queues.ts'
