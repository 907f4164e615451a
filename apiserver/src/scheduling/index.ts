/**
 * Turns and budgets: how work of many callers shares one event loop and its memory. Everything waits in one of these
 * ways, each with a bound and a stated behaviour when it is full:
 *
 * - `FairQueue`: callers take turns, one item each. The order of everything below except requests.
 * - `WorkTurns`: counted work, so much in a turn of the event loop. Lists and watches use it.
 * - `Turns`: one piece in each turn of the event loop. TLS handshakes and messages of WebSockets use it.
 * - `Semaphore`: so many holders, or so much weight, at once.
 * - `FairScheduler`: long work in steps, by a semaphore and turns.
 * - `RequestQueues`: requests before they begin. Their work is not known in advance, so it is measured and charged
 *   afterwards (`FairOrder`) instead of counted. See docs/decisions/0017-fair-queues.md.
 * - `BodyMemory`: the bytes of request bodies. Nothing waits for them; the stalest body is refused.
 */
export type { BodyBounds, BodyMemory, HeldBody } from './body-memory.ts'
export * from './fair-queue.ts'
export * from './fair-scheduler.ts'
export * from './request-class.ts'
export * from './request-queues.ts'
export * from './semaphore.ts'
export * from './turns.ts'
export * from './work.ts'
export * from './work-turns.ts'
