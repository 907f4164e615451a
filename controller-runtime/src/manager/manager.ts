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
  /** How long runs may take to finish once the manager stops: below the 30 s that Kubernetes leaves a process. */
  drainTimeoutMs: 25_000,
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
  /** Keyed by what identifies a kind to the server: a model that was declared twice is watched once. */
  readonly #informers = new Map<string, SharedInformer>()
  readonly #controllers = new Set<Controller>()
  readonly #pending: (() => void)[] = []
  #started = false
  #stopped: Promise<void> | undefined

  constructor({ transport, client, log, clock, drainTimeoutMs }: ManagerOptions) {
    const given = client ?? (transport && createClient(transport))
    if (given === undefined) throw new TypeError('a manager needs a transport or a client')
    this.client = given
    this.#log = log ?? silentLogger
    this.#clock = clock ?? systemClock
    this.#drainTimeoutMs = drainTimeoutMs ?? managerDefaults.drainTimeoutMs
  }

  /**
   * The shared cache of a model's objects, kept until the manager stops. It starts with the manager, or at once where
   * that has started.
   */
  informer<T extends ApiObject>(model: Model<T>): Informer<T> {
    return this.#share(model, 'manager')
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

  /**
   * Starts a controller with the manager, or at once where that has started.
   * @throws Error when the manager has stopped, or has another controller of that name.
   */
  add<T extends ApiObject>(controller: Controller<T>): void {
    if (this.#stopped !== undefined) throw new Error('the manager has stopped')
    for (const other of this.#controllers) {
      if (other.name === controller.name) throw new Error(`there is a controller ${controller.name} already`)
    }
    this.#controllers.add(controller)
    const informer = this.#share(controller.model, controller.name)
    if (this.#started) controller.start(informer)
    else this.#pending.push(() => controller.start(informer))
  }

  /** Stops one controller as `stop` does, and its informer where nobody else uses it. */
  async remove<T extends ApiObject>(controller: Controller<T>): Promise<void> {
    for (const known of this.#controllers) {
      if (known.name !== controller.name) continue
      this.#controllers.delete(known)
      await known.stop(this.#drainTimeoutMs)
      await this.#release(known.model, known.name)
    }
  }

  /** Starts everything that was added and returns at once; `synced` tells when the caches are filled. */
  start(): void {
    if (this.#started || this.#stopped !== undefined) return
    this.#started = true
    for (const start of this.#pending.splice(0)) start()
    for (const { informer } of this.#informers.values()) informer.start()
    this.#log.debug({ controllers: this.#controllers.size }, 'the manager has started')
  }

  /**
   * Resolves once every informer that is there by now holds its model's objects: with a server that is away, not
   * before it is back.
   * @throws the signal's reason when aborted, AbortError when the manager stops meanwhile.
   */
  async synced(signal?: AbortSignal): Promise<void> {
    const all = Promise.all([...this.#informers.values()].map(({ informer }) => informer.synced))
    if (signal === undefined) {
      await all
      return
    }
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => reject(signal.reason)
      if (signal.aborted) onAbort()
      signal.addEventListener('abort', onAbort, { once: true })
      all.then(() => resolve(), reject).finally(() => signal.removeEventListener('abort', onAbort))
    })
  }

  /**
   * Drains: no new work is taken, current runs finish within `drainTimeoutMs`, then their signals are aborted.
   * Resolves when that is done; calling it again answers the same promise. A stopped manager cannot start again.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#drain()
    return this.#stopped
  }

  async #drain(): Promise<void> {
    await Promise.all([...this.#controllers].map(controller => controller.stop(this.#drainTimeoutMs)))
    await Promise.all([...this.#informers.values()].map(({ informer }) => informer.stop()))
    this.#controllers.clear()
    this.#informers.clear()
    this.#log.info({}, 'the manager has stopped')
  }

  #share<T extends ApiObject>(model: Model<T>, user: string): Informer<T> {
    if (this.#stopped !== undefined) throw new Error('the manager has stopped')
    const shared = this.#informers.get(kindOf(model))
    if (shared !== undefined && holds(shared.informer, model)) {
      shared.users.add(user)
      return shared.informer
    }
    const informer = new Informer(model, { client: this.client, log: this.#log, clock: this.#clock })
    this.#informers.set(kindOf(model), { informer, users: new Set([user]) })
    if (this.#started) informer.start()
    return informer
  }

  async #release(model: Model, user: string): Promise<void> {
    const shared = this.#informers.get(kindOf(model))
    shared?.users.delete(user)
    if (shared === undefined || shared.users.size > 0) return
    this.#informers.delete(kindOf(model))
    await shared.informer.stop()
  }
}

interface SharedInformer {
  readonly informer: Informer
  /** Names of the controllers that use it; `manager` for who asked the manager itself. */
  readonly users: Set<string>
}

function kindOf({ apiVersion, plural }: Model): string {
  return `${apiVersion}/${plural}`
}

/** Objects of one kind have one type, whichever declaration of the model names it. */
function holds<T extends ApiObject>(informer: Informer, model: Model<T>): informer is Informer<T> {
  return kindOf(informer.model) === kindOf(model)
}
