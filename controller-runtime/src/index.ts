/**
 * The SDK of Setpoint: everything that a plugin imports.
 *
 * A plugin declares models, controllers for their objects, and routes:
 *
 *     defineModel ─┐
 *     index specs ─┴─> definePlugin ── setup ──> controllers (ControllerBuilder), routes (RouteBuilder, @ApiVersion)
 *
 * A program of its own uses the same parts through a manager:
 *
 *     const manager = createManager({ transport: new HttpTransport({ server: 'http://127.0.0.1:8090' }) })
 *     manager.controller(Gadget, c => c.reconcile(async (gadget, { client }) => { ... }))
 *     manager.start()
 *
 * Errors: ApiError (the server refused; see its `reason`), TransportError (no response), TerminalError (thrown by a
 * reconcile that must not be retried). Everything that waits takes an AbortSignal and rejects with its reason.
 *
 * Other entries: `./testing` for tests of plugins, `./api` for the shapes alone, without input or output.
 * `./internal` is for the server of the same version; its names change without notice.
 */

// Kinds and their objects

export {
  type Action,
  type ActionInput,
  type ActionOutput,
  type AdmitContext,
  type AdmitLister,
  type ApiObject,
  type ConvertedContent,
  type ConvertibleObject,
  type DeepMutable,
  type DeepReadonly,
  defineAction,
  defineModel,
  type FromSchema,
  type HookViolation,
  type Model,
  ModelError,
  type ModelVersion,
  modelOfVersion,
  multiValueIndex,
  type NewObject,
  type ObjectList,
  type ObjectMeta,
  type ObjectOf,
  type OwnerReference,
  parseRevision,
  type Revision,
  type Schema,
  singleValueIndex,
  type UserInfo,
  type ViolationReason,
  type WatchEvent,
} from './api/index.ts'

// Built-in kinds: each name is a model and the type of its objects

export { ConfigMap, Event, Lease, Namespace, Secret, ServiceAccount } from './kinds/index.ts'

// Owners, selectors and errors of the API

export {
  AlreadyOwnedError,
  ApiError,
  controllerOf,
  escapeSelectorValue,
  isAlreadyExists,
  isApiError,
  isConflict,
  isExpired,
  isInvalid,
  isNotFound,
  isOwnedBy,
  matches,
  objectKey,
  removeOwnerReference,
  type Status,
  setControllerReference,
  setOwnerReference,
  splitObjectKey,
} from './api/index.ts'

// Plugins and their routes. `Patch` is the decorator; the type of patches is `ObjectPatch`.

export {
  type ActionRequest,
  ApiVersion,
  Delete,
  definePlugin,
  Get,
  isPlugin,
  type PagesOptions,
  Patch,
  type Plugin,
  type PluginContext,
  type PluginPermission,
  type PluginRun,
  type PluginRunContext,
  type PluginRunnableOptions,
  Post,
  Put,
  type RouteBuilder,
  type RouteOptions,
  type RouteRequest,
  type RouteResponse,
  type SettingSchema,
  type SettingsOf,
  type SettingsSchema,
} from './plugin/index.ts'

// Metrics of plugins

export type {
  HistogramDeclaration,
  LabelValues,
  MetricDeclaration,
  PluginCounter,
  PluginGauge,
  PluginHistogram,
  PluginMetrics,
} from './metrics/index.ts'

// Controllers

export {
  type Controller,
  type ControllerBuilder,
  every,
  type Finalize,
  type Reconcile,
  type ReconcileContext,
  type ReconcileReport,
  type ReconcileResult,
  type ReconcileResults,
  type Source,
  TerminalError,
} from './controller/index.ts'
export { EventRecorder } from './events/index.ts'
export { priorities, WorkQueue } from './workqueue/index.ts'

// Predicates

export {
  and,
  annotationsChanged,
  anyChange,
  changedBeyondStatus,
  generationChanged,
  labelsChanged,
  matching,
  matchingLabels,
  not,
  or,
  type Predicate,
  type UpdatePredicate,
} from './controller/index.ts'

// Conditions

export {
  type Condition,
  conditionsSchema,
  getCondition,
  isConditionTrue,
  removeCondition,
  setCondition,
} from './conditions.ts'

// Clients, and what waits, watches and copies through them

export { Informer, type InformerHandler, InformerPool, type Lister } from './cache/index.ts'
export {
  type Client,
  createClient,
  HttpTransport,
  MalformedEventError,
  type MergePatch,
  mutableCopy,
  type NewObjectOf,
  type Patch as ObjectPatch,
  RetryingTransport,
  retryOnConflict,
  type Transport,
  TransportError,
  type WriteOutcome,
} from './client/index.ts'
export { until, WaitTimeoutError, waitFor } from './wait/index.ts'
export { Watcher, type WatcherEvent } from './watch/index.ts'

// Managers: controllers in a process of their own

export { Collector, DiscoveredKinds, fixedKinds, type KindSource } from './collector/index.ts'
export {
  createManager,
  LeadershipLostError,
  type Manager,
  type ManagerOptions,
} from './manager/index.ts'
export type { Runnable } from './runnable.ts'

// Requests to URLs from objects

export { TargetDeniedError, TargetPolicy, type TargetSettings, targetSettings } from './targets/index.ts'

// Logs, time, aborts and randomness

export { type Clock, sleep, systemClock } from './clock.ts'
export { type LinkedSignal, linkedSignal } from './linked-signal.ts'
export { type Logger, silentLogger } from './logger.ts'
export type { RandomSource } from './random.ts'
export { settledWithin } from './settled-within.ts'
export { aborted, unlessAborted } from './unless-aborted.ts'
