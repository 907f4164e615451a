import { type Model, ModelError } from '@setpoint/controller-runtime/api'
import { IndexSet } from './index-set.ts'
import { compileSchemas, type SchemaValidator } from './schema-validator.ts'

/**
 * The phase of a model.
 *
 *     Starting ──indexes built──▶ Started
 *        └─────fault of the plugin──▶ Failed
 */
type ModelPhase = { name: 'Starting' } | { name: 'Started' } | { name: 'Failed'; message: string }

/** A model with its compiled schemas and indexes. */
export class ServedModel {
  readonly model: Model
  /** The plugin that declared it; undefined for the server's own models. */
  readonly plugin: string | undefined
  /** `<group>/<plural>`. Identifies the stored objects, which do not depend on the API version. */
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
  /** The wire JSON of every object begins with this, followed by the name. */
  readonly wirePrefix: string
  phase: ModelPhase = { name: 'Starting' }

  constructor(model: Model, plugin?: string) {
    if (model.versions.length > 0) throw new ModelError('this server serves only one version of a kind')
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
