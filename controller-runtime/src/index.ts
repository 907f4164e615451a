export * from './api/index.ts'
export { Informer, type InformerOptions } from './cache/informer.ts'
export {
  type Client,
  type ClientOptions,
  clientDefaults,
  createClient,
  type DeleteOptions,
  type ItemsOptions,
  type JsonPatchOperation,
  type ListOptions,
  type MergePatch,
  type NewObjectOf,
  type Patch as ObjectPatch,
  type PatchOptions,
  type ReadOptions,
  type ReplacementOf,
  type RequestOptions,
  type SelectorOptions,
  type WatchOptions,
  type WatchStream,
  type WriteOptions,
} from './client/client.ts'
export { MalformedEventError } from './client/decode.ts'
export {
  type Transport,
  TransportError,
  type TransportRequest,
  type TransportResponse,
  type WatchConnection,
  type WatchEnd,
  type WatchRequestOptions,
} from './client/transport.ts'
export { type CancelTimer, type Clock, sleep, systemClock } from './clock.ts'
export { ControllerBuilder, type ControllerDefinition, controllerDefaults } from './controller/builder.ts'
export { Controller, type ControllerOptions } from './controller/controller.ts'
export { anyChange, changedBeyondStatus, type UpdatePredicate } from './controller/predicates.ts'
export {
  type Finalize,
  type Reconcile,
  type ReconcileContext,
  type ReconcileResult,
  TerminalError,
} from './controller/reconcile.ts'
export { type Logger, silentLogger } from './logger.ts'
export { createManager, Manager, type ManagerOptions, managerDefaults } from './manager/manager.ts'
export { type HostedPlugin, type PluginHostOptions, setupPlugin } from './manager/plugin-host.ts'
export {
  definePlugin,
  isPlugin,
  type Plugin,
  type PluginContext,
  type PluginDeclaration,
} from './plugin/plugin.ts'
export * from './plugin/routes.ts'
