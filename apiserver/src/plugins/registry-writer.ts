import { ApiError, type ApiObject, type ObjectKey } from '@setpoint/controller-runtime/api'
import type { FreshKinds } from '../http/index.ts'
import type { ModelRegistry, ServedModel, ServedVersion } from '../model/index.ts'
import { notReady, serviceWriteOptions, unknownFieldsOf, type WriteResult } from '../registry/index.ts'
import type { ActorWrites } from './actor-writes.ts'
import type { KindAndContent, NewExtension, ResourceWriter } from './resource-writer.ts'

/** Writes the objects that a plugin ships, as the plugin. */
export class RegistryWriter implements ResourceWriter {
  readonly #models: ModelRegistry
  readonly #writes: ActorWrites
  readonly #definitions: FreshKinds

  /**
   * @param writes those of the plugin
   * @param definitions a written definition is waited for, because objects of its kind may follow
   */
  constructor(models: ModelRegistry, writes: ActorWrites, definitions: FreshKinds) {
    this.#models = models
    this.#writes = writes
    this.#definitions = definitions
  }

  isNamespaced(apiVersion: string, kind: string): boolean {
    return this.#find(apiVersion, kind).served.indexes.isNamespaced
  }

  async get(apiVersion: string, kind: string, key: ObjectKey): Promise<ApiObject | undefined> {
    const { served, version } = this.#find(apiVersion, kind)
    const live = await this.#writes.readLive(served, key, version)
    return live && JSON.parse(live.bytes.toString())
  }

  async create(object: NewExtension): Promise<ApiObject> {
    const { apiVersion, kind, metadata } = object
    const { served, version } = this.#find(apiVersion, kind)
    const { user } = this.#writes.actor
    const options = { ...serviceWriteOptions, user, version, namespace: metadata.namespace }
    return this.#written(served, await this.#writes.create(served, object, options))
  }

  async patch(apiVersion: string, kind: string, key: ObjectKey, document: object): Promise<ApiObject> {
    const { served, version } = this.#find(apiVersion, kind)
    const { user } = this.#writes.actor
    const result = await this.#writes.patch(served, key, { type: 'merge', document }, 'object', {
      ...serviceWriteOptions,
      user,
      version,
    })
    return this.#written(served, result)
  }

  async #written(served: ServedModel, { key, bytes }: WriteResult): Promise<ApiObject> {
    if (served === this.#definitions.kind) await this.#definitions.settled(key)
    return JSON.parse(bytes.toString())
  }

  unknownFields(object: KindAndContent): readonly string[] {
    return unknownFieldsOf(this.#find(object.apiVersion, object.kind).version.schemas, object)
  }

  #explainAbsence(apiVersion: string, kind: string): string {
    const kinds = [...this.#models.all()].filter(({ versions }) =>
      versions.some(version => version.apiVersion === apiVersion),
    )
    const remedy =
      kinds.length === 0
        ? `no kind of ${apiVersion} is: check the apiVersion, and that the kind's plugin has started`
        : `the kinds of ${apiVersion} are ${kinds.map(({ model }) => model.kind).join(', ')}`
    return `the kind ${kind} of ${apiVersion} is not served; ${remedy}`
  }

  #find(apiVersion: string, kind: string): { served: ServedModel; version: ServedVersion } {
    const served = this.#models.findKind(apiVersion, kind)
    if (served === undefined) throw new ApiError('NotFound', this.#explainAbsence(apiVersion, kind))
    if (served.phase.name !== 'Started') throw notReady(served, 'it is not started')
    return { served, version: served.versionOf(apiVersion) }
  }
}
