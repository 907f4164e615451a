/**
 * Everything of the SDK, for the server of the same version and for tests. Not for plugins: names here change without
 * notice. Each folder uses only those above it:
 *
 *     api/         objects, events, errors, selectors, names: the shapes that both ends of the wire share
 *     kinds/       Kubernetes' kinds that the server has built in
 *     client/      Transport moves text (HttpTransport; the server has its own); Client adds types
 *     watch/       Watcher: one endless stream of changes without gaps, over many connections
 *     cache/       Informer: a frozen local copy of a model's objects, and handlers for their changes
 *     workqueue/   WorkQueue: the keys that need work, each once, with priorities and delays
 *     metrics/     ControllerMetrics: Prometheus metrics of controllers and queues; PluginMetricSet: those of a plugin
 *     controller/  Controller: runs reconcile and finalize, each object in one run at a time
 *     events/      EventRecorder: what happened to an object, for people
 *     plugin/      the shape of a plugin, and decorators for its routes
 *     manager/     Manager: starts and drains controllers over shared informers; setupPlugin hosts a plugin
 *                  with its runnables and schedules
 *     collector/   Collector: deletes the dependents of deleted owners; runs in a manager
 *     wait/        waitFor: waits until one object meets a condition
 *     testing/     (its own entry) a real server, a conformance suite and faults, for tests
 */

// The bundle of the server takes these from here, so that a process loads one copy (`scripts/bundle.mjs`).
export { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
export { type BuiltInDeclaration, type BuiltInObject, defineBuiltInModel } from './api/built-in-model.ts'
export { compareCodePoints, compareUnits, ordersByUnit } from './api/code-point-order.ts'
export { defaultIndexes } from './api/default-indexes.ts'
export { echo, echoName, quote, shorten } from './api/echo.ts'
export * from './api/index.ts'
export { selectableField } from './api/index-spec.ts'
export { compileJsonPath, compileJsonPaths, type JsonPath, leadingFields } from './api/json-path.ts'
export { Backoff } from './backoff.ts'
export * from './cache/index.ts'
export { decodeError } from './client/decode.ts'
export type { Patch as ObjectPatch } from './client/index.ts'
export * from './client/index.ts'
export { loadWebSockets } from './client/web-sockets.ts'
export { type CancelTimer, type Clock, sleep, systemClock } from './clock.ts'
export * from './collector/index.ts'
export * from './conditions.ts'
export * from './controller/index.ts'
export * from './events/index.ts'
export * from './kinds/index.ts'
export { type LinkedSignal, linkedSignal } from './linked-signal.ts'
export { type Logger, silentLogger } from './logger.ts'
export * from './manager/index.ts'
export * from './metrics/index.ts'
export * from './plugin/index.ts'
// `Patch` is the decorator. The type of patches has the longer name.
export { Patch } from './plugin/index.ts'
export { type RandomSource, systemRandom } from './random.ts'
export { retryAfterSeconds } from './retry-after.ts'
export type { Runnable, RunnableContext, RunnableObserver } from './runnable.ts'
export { type Span, withRequestSpan } from './tracing.ts'
export { unlessAborted } from './unless-aborted.ts'
export * from './wait/index.ts'
export * from './watch/index.ts'
export * from './workqueue/index.ts'
export { Yielder } from './yielder.ts'
