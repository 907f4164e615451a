import type { KeysOf } from '../../api/known-keys.ts'
import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import type { NewObjectOf, Patch } from '../../client/bodies.ts'
import type { Client } from '../../client/client.ts'
import type { Clock } from '../../clock.ts'
import type { ControllerBuilder } from '../../controller/builder.ts'
import { isServedByEveryServer } from '../../kinds/served-by-every-server.ts'
import { definePlugin, type Plugin } from '../../plugin/plugin.ts'
import type { RandomSource } from '../../random.ts'

/** Limits of the conformance suite. */
export const conformanceDefaults = Object.freeze({
  /** Ms of the controllers' clock that a wait may take: enough for many retries. The clock skips idle times. */
  patienceMs: 3_600_000,
  /** Ms of the controllers' clock without a write before everything counts as at rest. */
  restMs: 3_000,
  /** Ms of the controllers' clock for a difference to disappear. */
  settleMs: 60_000,
  /** Real ms of one lifecycle. Long, since one of 100 ms may take many seconds on a busy machine. */
  deadlineMs: 120_000,
  /** Real ms of a registered test, which runs up to a few hundred lifecycles. */
  testMs: 900_000,
  /** Calls of one kind, in each phase of a lifecycle, that are disturbed. */
  callsOfAKind: 2,
  /** Processes that die in the case of many crashes, while objects converge and while they are removed. */
  deaths: 15,
  /** Number of writes for one object that only a loop explains. */
  loopWrites: 100,
  /** Number of writes of one process that end a wait for it. */
  endlessWrites: 500,
  /** Lifecycles that run concurrently; they mostly wait for the disk. */
  concurrency: 4,
})

type PluginSettings = Readonly<Record<string, unknown>>

/** Starts a failure of the outside, and returns a function that ends it. */
export type Outage<Outside> = (outside: Outside) => EndOutage | Promise<EndOutage>

type EndOutage = () => void | Promise<void>

/** Passed to each process of the reconciler. */
export interface ProcessStart<Outside> {
  /** The value of `outside` for this lifecycle, the same for all of its processes. */
  readonly outside: Outside
  /** The controllers' clock, also in the contexts of plugin and reconciler. It stands still while they work. */
  readonly clock: Clock
  /** Seeded randomness, also in those contexts. */
  readonly random: RandomSource
}

/** One object and its surroundings. */
export interface ObjectView<T extends ApiObject, Outside> {
  /** The stored object; for `isCleanedUp`, as last seen. */
  readonly object: T
  readonly outside: Outside
  /** A client with all permissions. */
  readonly client: Client
}

/** The surroundings of a reconciler. */
export interface WorldView<Outside> {
  readonly outside: Outside
  readonly client: Client
}

/**
 * Describes a reconciler to the conformance suite: how to start it, which objects to create, and how to tell that its
 * work is done. The reconciler itself needs no changes.
 */
export interface ReconcilerUnderTest<T extends ApiObject = ApiObject, Outside = unknown> {
  /** The reconciled kind. */
  readonly model: Model<T>
  /**
   * Creates the plugin for a new process. It is called, and its `setup` run, for every process, so that no memory of an
   * earlier process is left. Either this or `controller`.
   */
  readonly plugin?: (start: ProcessStart<Outside>) => Plugin
  /** Builds the controller, if there is no plugin; called for every process. */
  readonly controller?: (controller: ControllerBuilder<T>, start: ProcessStart<Outside>) => unknown
  /** Further kinds to serve, such as those that it creates. The plugin's own kinds are included. */
  readonly models?: readonly Model[]
  /** Values for the plugin's settings, or a function that returns them. Checked as in the program. */
  readonly settings?: PluginSettings | ((outside: Outside) => PluginSettings)
  /**
   * Creates what the reconciler changes outside of the API, such as a folder or a fake cloud. Called for every
   * lifecycle; disposed of at its end if it has `Symbol.asyncDispose` or `Symbol.dispose`. Use `() => undefined` if
   * there is nothing.
   */
  readonly outside: () => Outside | Promise<Outside>
  /**
   * Creates the objects that must be there before the first process starts, such as those that the reconciler reads.
   */
  readonly prepare?: (view: WorldView<Outside>) => void | Promise<void>
  /** The objects to create. Most cases use only the first; the case of many crashes uses all. */
  readonly objects: (outside: Outside) => readonly NewObjectOf<NoInfer<T>>[]
  /**
   * Patches of the first object's spec, applied one after the other. Without them, some cases change only annotations.
   */
  readonly changes?: (outside: Outside) => readonly Patch<NoInfer<T>>[]
  /** Returns true if the work for an object is done. Compare `status.observedGeneration` with `metadata.generation`. */
  readonly isConverged: (view: ObjectView<T, Outside>) => boolean | Promise<boolean>
  /** Returns true if nothing is left of a removed object, wherever the reconciler had put it. */
  readonly isCleanedUp: (view: ObjectView<T, Outside>) => boolean | Promise<boolean>
  /**
   * Returns the parts of the outside, and of status, that must be the same after every lifecycle. Compared as JSON. The
   * objects of all kinds are always compared: their number, specs, labels, annotations and finalizers. Uids, and values
   * that the reconciler draws from its context's `random` and `clock.now`, are replaced by placeholders.
   */
  readonly world?: (view: WorldView<Outside>) => unknown
  /**
   * Replaces values that may differ between lifecycles, such as generated names and keys. Called like the replacer of
   * `JSON.stringify` for every value that is compared; its result is compared instead, and undefined omits the value.
   * `path` starts with `objects`, `<plural>.<group>` and an index, followed by `spec`, `labels`, `annotations` or
   * `finalizers`; or with `world`.
   */
  readonly normalize?: (value: unknown, path: readonly string[]) => unknown
  /** Failures of the outside, by name. They test that the finalizer stays while the clean-up fails. */
  readonly outages?: Readonly<Record<string, Outage<Outside>>>
  /** Default `conformanceDefaults.patienceMs`. */
  readonly patienceMs?: number
  /** Default `conformanceDefaults.deadlineMs`. */
  readonly deadlineMs?: number
}

/** The options of `reconcilerConformance`. */
export const subjectKeys: KeysOf<ReconcilerUnderTest> = {
  model: true,
  plugin: true,
  controller: true,
  models: true,
  settings: true,
  outside: true,
  objects: true,
  changes: true,
  isConverged: true,
  isCleanedUp: true,
  world: true,
  normalize: true,
  outages: true,
  patienceMs: true,
  prepare: true,
  deadlineMs: true,
}

/** @throws TypeError unless exactly one of `plugin` and `controller` is given. */
export function pluginOf<T extends ApiObject, Outside>(
  subject: ReconcilerUnderTest<T, Outside>,
  start: ProcessStart<Outside>,
): Plugin {
  const { plugin, controller, model } = subject
  if ((plugin === undefined) === (controller === undefined)) {
    throw new TypeError('a reconciler under test needs either a plugin or a controller')
  }
  if (plugin !== undefined) return plugin(start)
  return definePlugin({
    name: model.plural,
    models: isServedByEveryServer(model) ? [] : [model],
    setup: context => context.controller(model, builder => void controller?.(builder, start)),
  })
}
