import { ApiError, type ApiObject, type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import { targetOfPath } from '../http/index.ts'
import type { ModelRegistry, ServedModel, ServedVersion } from '../model/index.ts'
import { notReady, type Registry, serviceWriteOptions, unknownFieldsOf } from '../registry/index.ts'
import { type Actor, checkActor } from './actor.ts'
import type { KindAndContent, NewExtension, ResourceWriter } from './extensions.ts'

/** Writes the objects that a plugin ships, as the plugin, straight to the registry. */
export class RegistryWriter implements ResourceWriter {
  readonly #models: ModelRegistry
  readonly #registry: Registry
  readonly #actor: Actor

  constructor(models: ModelRegistry, registry: Registry, actor: Actor) {
    this.#models = models
    this.#registry = registry
    this.#actor = actor
  }

  isNamespaced(apiVersion: string, kind: string): boolean {
    return this.#find(apiVersion, kind).served.indexes.isNamespaced
  }

  async get(apiVersion: string, kind: string, key: ObjectKey): Promise<ApiObject | undefined> {
    const { served, version } = this.#find(apiVersion, kind)
    const live = await this.#registry.readLive(served, key, version)
    return live && JSON.parse(live.bytes.toString())
  }

  async create(object: NewExtension): Promise<ApiObject> {
    const { apiVersion, kind, metadata } = object
    const { namespace } = metadata
    const { served, version } = this.#find(apiVersion, kind)
    const { user } = this.#actor
    this.#check('create', served, version, namespace, undefined)
    const options = { ...serviceWriteOptions, user, version, ...(namespace !== undefined && { namespace }) }
    return JSON.parse((await this.#registry.create(served, object, options)).bytes.toString())
  }

  async patch(apiVersion: string, kind: string, key: ObjectKey, document: object): Promise<ApiObject> {
    const { served, version } = this.#find(apiVersion, kind)
    const { user } = this.#actor
    const { namespace, name } = splitObjectKey(key)
    this.#check('patch', served, version, namespace, name)
    const result = await this.#registry.patch(served, key, { type: 'merge', document }, 'object', {
      ...serviceWriteOptions,
      user,
      version,
    })
    return JSON.parse(result.bytes.toString())
  }

  unknownFields(object: KindAndContent): readonly string[] {
    return unknownFieldsOf(this.#find(object.apiVersion, object.kind).version.schemas, object)
  }

  /** @throws ApiError 403 */
  #check(
    verb: string,
    served: ServedModel,
    { name: version }: ServedVersion,
    namespace: string | undefined,
    name: string | undefined,
  ): void {
    const { group, plural } = served.model
    const target = targetOfPath({ group, version, plural, namespace, name, subresource: undefined })
    checkActor(this.#actor, this.#actor.user, verb, served, target)
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
