/**
 * The SDK of Setpoint: what a plugin imports, and all that it imports.
 *
 * A plugin declares models and what is done about their objects:
 *
 *     defineModel ─┐
 *     index specs ─┴─> definePlugin ── setup ──> controllers (ControllerBuilder), routes (RouteBuilder, @ApiVersion)
 *
 * What runs it, from the wire upwards; each folder is one of these and uses only those above it:
 *
 *     api/         objects, events, errors, selectors, names: what both sides of the wire agree on
 *     client/      Transport moves text (HttpTransport; the server has one of its own); Client gives it types
 *     watch/       Watcher: one endless, gapless stream of changes over many connections
 *     cache/       Informer: a frozen local copy of a model's objects, and handlers that hear of changes
 *     workqueue/   WorkQueue: which keys need work, each once, in which order and not before when
 *     controller/  Controller: runs reconcile and finalize, one object never twice at once
 *     metrics/     ControllerMetrics: what controllers and queues tell Prometheus
 *     manager/     Manager: starts and drains controllers over shared informers; setupPlugin hosts a plugin
 *     collector/   Collector: deletes what is owned by what has gone; runs in a manager
 *     events/      EventRecorder: what happened to an object, for people
 *     wait/        waitFor: one object, until it is as wanted
 *     testing/     (its own entry) a real server, a conformance suite and faults, for tests
 *
 * The least that one can do with it:
 *
 *     const manager = createManager({ transport: new HttpTransport({ server: 'http://127.0.0.1:8090' }) })
 *     manager.controller(Gadget, c => c.reconcile(async (gadget, { client }) => { ... }))
 *     manager.start()
 *
 * Errors: ApiError (the server refused; see its `reason`), TransportError (no answer), TerminalError (thrown by a
 * reconcile that is not to be retried). Whatever waits takes an AbortSignal and rejects with its reason.
 */
export * from './api/index.ts'
export { Breather } from './breather.ts'
export * from './cache/index.ts'
// `Patch` is the decorator of `plugin/routes.ts`, as the contract has it; the type of patches takes the longer name.
export {
  type Client,
  type ClientOptions,
  type ConflictRetryOptions,
  type CreateOrUpdateOptions,
  clientDefaults,
  conflictRetryDefaults,
  createClient,
  type DeleteOptions,
  type DesiredFields,
  type DesiredObject,
  type Draft,
  HttpTransport,
  type HttpTransportOptions,
  httpTransportDefaults,
  type ItemsOptions,
  type JsonPatchOperation,
  type ListOptions,
  MalformedEventError,
  type MergePatch,
  type Mutate,
  mutableCopy,
  type NewObjectOf,
  type Patch as ObjectPatch,
  type PatchOptions,
  type ReadOptions,
  type ReplacementOf,
  type RequestOptions,
  RetryingTransport,
  type RetryingTransportOptions,
  retryDefaults,
  retryOnConflict,
  type SelectorOptions,
  type Transport,
  TransportError,
  type TransportRequest,
  type TransportResponse,
  type WatchConnection,
  type WatchEnd,
  type WatchOptions,
  type WatchRequestOptions,
  type WatchStream,
  type WriteOptions,
  type WriteOutcome,
} from './client/index.ts'
export { type CancelTimer, type Clock, sleep, systemClock } from './clock.ts'
export * from './collector/index.ts'
export {
  type Condition,
  conditionsSchema,
  getCondition,
  isConditionTrue,
  removeCondition,
  setCondition,
} from './conditions.ts'
export * from './controller/index.ts'
export * from './events/index.ts'
export { type Logger, silentLogger } from './logger.ts'
export * from './manager/index.ts'
export * from './metrics/index.ts'
export * from './plugin/index.ts'
export * from './wait/index.ts'
export * from './watch/index.ts'
export * from './workqueue/index.ts'
