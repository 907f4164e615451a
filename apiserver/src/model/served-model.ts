import type { Model } from '@setpoint/controller-runtime/api'
import { IndexSet } from './index-set.ts'
import { compileSchemas, type SchemaValidator } from './schema-validator.ts'

/**
 * Where a model stands on the way to being served.
 *
 *     Starting ──indexes built──▶ Started
 *        └─────fault of the plugin──▶ Failed
 */
type ModelPhase = { name: 'Starting' } | { name: 'Started' } | { name: 'Failed'; message: string }

/** A model with everything that its requests need, compiled once. */
export class ServedModel {
  readonly model: Model
  /** Name of the plugin that declared it; undefined for the server's own. */
  readonly plugin: string | undefined
  /** `<group>/<plural>`: names the stored objects, which do not depend on the version. */
  readonly resource: string
  /** Prefix of the keys of its objects. */
  readonly keyPrefix: string
  readonly schemas: SchemaValidator
  readonly indexes: IndexSet
  /** The unique indexes among the declared ones, with their positions in `indexes`. */
  readonly uniqueIndexes: readonly {
    readonly name: string
    readonly version: number
    readonly position: number
  }[]
  /** Every object's wire JSON begins with this, then the name's characters. */
  readonly wirePrefix: string
  phase: ModelPhase = { name: 'Starting' }

  constructor(model: Model, plugin?: string) {
    this.model = model
    this.plugin = plugin
    this.resource = `${model.group}/${model.plural}`
    this.keyPrefix = `objects/${this.resource}/`
    this.schemas = compileSchemas(model.schema)
    this.indexes = new IndexSet(model)
    this.uniqueIndexes = model.indexes.flatMap(({ unique, name, version }) => {
      const position = this.indexes.indexOf(name)
      return unique && position !== undefined ? [{ name, version, position }] : []
    })
    this.wirePrefix = `{"apiVersion":${JSON.stringify(model.apiVersion)},"kind":${JSON.stringify(model.kind)},"metadata":{"name":"`
  }

  keyOf(name: string): string {
    return this.keyPrefix + name
  }
}
