import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import type { Client, NewObjectOf, Patch } from '../../client/client.ts'
import type { Clock } from '../../clock.ts'
import type { ControllerBuilder } from '../../controller/builder.ts'
import { definePlugin, type Plugin } from '../../plugin/plugin.ts'

/** Bounds of the conformance suite. */
export const conformanceDefaults = Object.freeze({
  /** Real ms until something that has not happened counts as never: a busy machine takes many seconds for what takes ten ms. */
  patienceMs: 60_000,
  /** How much faster than real time the controllers' clock runs: pauses of seconds pass in tens of ms, and time-outs of a minute leave seconds to a busy machine. */
  speed: 20,
  /** Real ms for which nothing may be written before everything counts as having come to rest: some seconds of the controllers' clock. */
  restMs: 150,
  /** Real ms that the server's collector gets for the dependents of an object that has gone. */
  collectMs: 5_000,
  /** Writes of one process for one object that nothing explains but a loop. */
  loopWrites: 100,
  /** Lives that are lived at once; they mostly wait for the disk. */
  concurrency: 4,
})

/** What a process of the reconciler is started with. */
export interface ProcessStart<Outside> {
  /** What `outside` made for this case: the same for each process of it. */
  readonly outside: Outside
  /** Runs faster than real time; for reconcilers that wait. */
  readonly clock: Clock
}

/** One object and what is around it. */
export interface ObjectView<T extends ApiObject, Outside> {
  /** As the server has it; for `isCleanedUp`, as it was last seen. */
  readonly object: T
  readonly outside: Outside
  /** Reads what else there is, as somebody who may do everything. */
  readonly client: Client
}

/** What a reconciler's objects and its surroundings look like at one moment. */
export interface WorldView<Outside> {
  readonly outside: Outside
  readonly client: Client
}

/**
 * What a conformance suite has to know of a reconciler: how to start it, what to give it, and how to tell that it has
 * done its work. The reconciler itself needs no change for it.
 */
export interface ReconcilerUnderTest<T extends ApiObject = ApiObject, Outside = unknown> {
  /** The kind that it reconciles. */
  readonly model: Model<T>
  /**
   * The plugin, as a process that starts would have it. It is called for every start, and its `setup` is run: what the
   * last process remembered is forgotten. Either this or `controller`.
   */
  readonly plugin?: (start: ProcessStart<Outside>) => Plugin
  /** The controller alone, where there is no plugin; called for every start. */
  readonly controller?: (controller: ControllerBuilder<T>, start: ProcessStart<Outside>) => unknown
  /** Further kinds that are served: those that it makes objects of. The plugin's own are. */
  readonly models?: readonly Model[]
  /**
   * Makes what the reconciler changes outside of the API: a folder, a fake of a cloud. Called for every case and every
   * life in it; disposed of afterwards where it has `Symbol.asyncDispose` or `Symbol.dispose`. `() => undefined` where it
   * changes nothing there.
   */
  readonly outside: () => Outside | Promise<Outside>
  /** Objects to create. The first is used where one will do; several make the restart storm worth its name. */
  readonly objects: (outside: Outside) => readonly NewObjectOf<NoInfer<T>>[]
  /** Patches of what the first object desires, to be followed one after the other. Without them, what rests on changes of the specification is tested with labels alone. */
  readonly changes?: (outside: Outside) => readonly Patch<NoInfer<T>>[]
  /** Whether the work for an object is done. Compare `status.observedGeneration` with `metadata.generation` where there is one. */
  readonly isConverged: (view: ObjectView<T, Outside>) => boolean | Promise<boolean>
  /** Whether nothing is left of an object that has gone, wherever the reconciler had put it. */
  readonly isCleanedUp: (view: ObjectView<T, Outside>) => boolean | Promise<boolean>
  /**
   * What of the outside, and of status, must be the same after every disturbed life as after an undisturbed one. Compared
   * as JSON, so leave out times and what is random; uids are dealt with. The objects of all kinds are compared anyway:
   * how many there are, their specs, labels, annotations and finalizers.
   */
  readonly world?: (view: WorldView<Outside>) => unknown
  /**
   * Failures of the outside, by name: each begins one and answers what ends it. They show whether the finalizer waits
   * for a clean-up that fails.
   */
  readonly outages?: Readonly<Record<string, (outside: Outside) => () => void | Promise<void>>>
  /** Default `conformanceDefaults.patienceMs`. */
  readonly patienceMs?: number
  /** Default `conformanceDefaults.speed`. */
  readonly speed?: number
}

/** @throws TypeError where neither or both of `plugin` and `controller` are given. */
export function pluginOf<T extends ApiObject, Outside>(
  subject: ReconcilerUnderTest<T, Outside>,
  start: ProcessStart<Outside>,
): Plugin {
  const { plugin, controller, model } = subject
  if ((plugin === undefined) === (controller === undefined)) {
    throw new TypeError('a reconciler under test has either a plugin or a controller')
  }
  if (plugin !== undefined) return plugin(start)
  return definePlugin({
    name: model.plural,
    models: [model],
    setup: context => context.controller(model, builder => void controller?.(builder, start)),
  })
}
