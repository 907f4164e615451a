import { createClient, Informer, type Logger, type Transport } from '@setpoint/controller-runtime'
import type { ObjectOf } from '@setpoint/controller-runtime/api'
import { pluginModel } from './plugin-kind.ts'

/** What a `Plugin` object asks for. */
export interface PluginSpec {
  readonly enabled: boolean
  readonly reload: string | number | undefined
}

type PluginObject = ObjectOf<ReturnType<typeof pluginModel>>

/** Follows the specs of all `Plugin` objects, in a server or in a process of controllers. */
export class PluginSpecs {
  readonly #informer: Informer<PluginObject>

  constructor(parts: { transport: Transport; reservedDomain: string; log: Logger }) {
    const { transport, reservedDomain, log } = parts
    this.#informer = new Informer(pluginModel(reservedDomain), { client: createClient(transport), log })
  }

  /** Starts following. Waits for the server in the background. */
  start(): void {
    this.#informer.start()
  }

  /** Waits until the specs are known and returns that of a plugin. @throws when stopped */
  async get(name: string): Promise<PluginSpec> {
    await this.#informer.synced
    return this.current(name)
  }

  /** Returns the spec of a plugin as far as it is known. A plugin without an object is enabled. */
  current(name: string): PluginSpec {
    const spec = this.#informer.get(name)?.spec
    return { enabled: spec?.enabled ?? true, reload: spec?.reload }
  }

  /** Waits until the objects are known and returns the names of those that are not marked yet. @throws when stopped */
  async unmarked(): Promise<string[]> {
    await this.#informer.synced
    const objects = this.#informer.list().filter(({ status }) => status?.phase !== 'NotInstalled')
    return objects.map(({ metadata }) => metadata.name)
  }

  /** Returns the groups of a plugin's routes when a server last ran it. */
  routesOf(name: string): readonly string[] {
    return this.#informer.get(name)?.status?.routes ?? []
  }

  /** Returns the reason of a condition in the status that a server has stored last. */
  reasonOf(name: string, type: string): string | undefined {
    const conditions = this.#informer.get(name)?.status?.conditions
    return conditions?.find(condition => condition.type === type)?.reason
  }

  /** Calls back for each object and after each change. `isDeleted` is true after the object was deleted. */
  observe(changed: (name: string, isDeleted: boolean) => void): void {
    const tell = ({ metadata }: PluginObject) => changed(metadata.name, false)
    const onDelete = ({ metadata }: PluginObject) => changed(metadata.name, true)
    this.#informer.addHandler({ onAdd: tell, onUpdate: tell, onDelete })
  }

  async stop(): Promise<void> {
    await this.#informer.stop()
  }
}
