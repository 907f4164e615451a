import { ApiError, type ApiObject } from '@setpoint/controller-runtime/api'
import type { ModelRegistry, ServedModel, ServedVersion } from '../model/index.ts'
import { notReady, type Registry, serviceWriteOptions, unknownFieldsOf } from '../registry/index.ts'
import type { KindAndContent, ResourceWriter } from './extensions.ts'

/** Writes the objects that plugins ship straight to the registry, without the access checks of HTTP. */
export class RegistryWriter implements ResourceWriter {
  readonly #models: ModelRegistry
  readonly #registry: Registry

  constructor(models: ModelRegistry, registry: Registry) {
    this.#models = models
    this.#registry = registry
  }

  async get(apiVersion: string, kind: string, name: string): Promise<ApiObject | undefined> {
    const { served, version } = this.#find(apiVersion, kind)
    const live = await this.#registry.readLive(served, name, version)
    return live && JSON.parse(live.bytes.toString())
  }

  async create(object: object): Promise<ApiObject> {
    const { apiVersion, kind } = object as Partial<ApiObject>
    const { served, version } = this.#find(String(apiVersion), String(kind))
    const options = { ...serviceWriteOptions, version }
    return JSON.parse((await this.#registry.create(served, object, options)).bytes.toString())
  }

  async patch(apiVersion: string, kind: string, name: string, document: object): Promise<ApiObject> {
    const { served, version } = this.#find(apiVersion, kind)
    const result = await this.#registry.patch(served, name, { type: 'merge', document }, 'object', {
      ...serviceWriteOptions,
      version,
    })
    return JSON.parse(result.bytes.toString())
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
    return { served, version: served.versionNamed(apiVersion.slice(apiVersion.indexOf('/') + 1)) }
  }
}
