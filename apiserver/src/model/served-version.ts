import {
  isRecord,
  type Model,
  ModelError,
  type ModelVersion,
  type PrinterColumn,
} from '@setpoint/controller-runtime/api'
import type { BareObject } from './bare-object.ts'
import { ConversionError } from './conversion-error.ts'
import type { SchemaOptions, SchemaValidator } from './schema-validator.ts'

/** A function like `compileSchemas`. */
export type CompileSchemas = (schema: Model['schema'], options: SchemaOptions) => SchemaValidator

/**
 * One API version of a served kind. The hub converts by returning the object itself.
 *
 * A conversion gets a copy and returns `spec` and `status`. Metadata and unknown top-level fields are the same in every
 * version.
 */
export class ServedVersion {
  readonly name: string
  /** `<group>/<name>` */
  readonly apiVersion: string
  readonly kind: string
  readonly isHub: boolean
  readonly schemas: SchemaValidator
  /** The columns of tables: those of the version, else those of the hub. */
  readonly printerColumns: readonly PrinterColumn[]
  /** The text of the `Warning` header of every response, or undefined. */
  readonly warning: string | undefined
  /** The wire JSON of every object begins with this, followed by the name. */
  readonly wirePrefix: string
  readonly #model: Model
  readonly #plugin: string | undefined
  /** Undefined for the hub. */
  readonly #declared: ModelVersion | undefined

  /** @throws ModelError for an unusable schema */
  constructor(
    model: Model,
    plugin: string | undefined,
    compileSchemas: CompileSchemas,
    declared?: ModelVersion,
  ) {
    const { name, apiVersion } = declared ?? { name: model.version, apiVersion: model.apiVersion }
    this.name = name
    this.apiVersion = apiVersion
    this.kind = model.kind
    this.isHub = declared === undefined
    this.schemas = compile(compileSchemas, model, declared)
    this.printerColumns = declared?.printerColumns ?? model.printerColumns
    this.warning = declared?.deprecated && `${apiVersion} ${model.kind} is deprecated: ${declared.deprecated}`
    this.wirePrefix = `{"apiVersion":${JSON.stringify(apiVersion)},"kind":${JSON.stringify(model.kind)},"metadata":{"name":"`
    this.#model = model
    this.#plugin = plugin
    this.#declared = declared
  }

  /** Converts an object at the hub to this version. @throws ConversionError */
  fromHub(hub: BareObject): BareObject {
    const declared = this.#declared
    if (declared === undefined) return hub
    return this.#convert(hub, this.#model.version, this, () => declared.fromHub(copyOf(hub)))
  }

  /**
   * Converts an object of this version to the hub.
   * @param previous the stored object at the hub, if a request changes it
   * @throws ConversionError
   */
  toHub(object: BareObject, previous?: BareObject): BareObject {
    const declared = this.#declared
    if (declared === undefined) return object
    const { apiVersion, version: name } = this.#model
    return this.#convert(object, this.name, { apiVersion, name }, () =>
      declared.toHub(copyOf(object), { previous: previous && copyOf(previous) }),
    )
  }

  /** Returns the error of a failed conversion of an object between two versions. */
  failure(name: string, from: string, to: string, problem: string, cause?: unknown): ConversionError {
    const { group, plural } = this.#model
    return new ConversionError({ plugin: this.#plugin, group, plural, name }, from, to, problem, cause)
  }

  #convert(
    object: BareObject,
    from: string,
    to: { readonly apiVersion: string; readonly name: string },
    convert: () => unknown,
  ): BareObject {
    const { kind, metadata, spec: _spec, status: _status, apiVersion: _apiVersion, ...others } = object
    try {
      const { spec, status } = contentOf(convert())
      const converted: BareObject = { apiVersion: to.apiVersion, kind, metadata, spec }
      if (status !== undefined) converted.status = status
      return Object.assign(converted, others)
    } catch (error) {
      throw this.failure(metadata.name, from, to.name, messageOf(error), error)
    }
  }
}

/** A copy, because a conversion that changes its argument must not change what is stored. */
function copyOf(object: BareObject): BareObject {
  const copy: BareObject = JSON.parse(JSON.stringify(object))
  return copy
}

/** Returns the result of a conversion as a JSON value of its own. @throws TypeError that names the mistake */
function contentOf(result: unknown): { spec: unknown; status?: unknown } {
  if (result instanceof Promise) {
    result.catch(() => {})
    throw new TypeError('it returned a promise, but conversions are synchronous')
  }
  if (!isRecord(result)) throw new TypeError('it must return an object with spec and status')
  const unknown = Object.keys(result).filter(key => key !== 'spec' && key !== 'status')
  if (unknown.length > 0)
    throw new TypeError(`it must return an object with spec and status, not with ${unknown.join(', ')}`)
  const content = JSON.parse(JSON.stringify(result))
  if (content.spec === undefined) throw new TypeError('it returned no spec')
  return content
}

function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error)
  } catch {
    return 'it threw a value that has no text'
  }
}

function compile(
  compileSchemas: CompileSchemas,
  model: Model,
  declared: ModelVersion | undefined,
): SchemaValidator {
  const options = { isSensitive: model.sensitive }
  if (declared === undefined) return compileSchemas(model.schema, options)
  try {
    return compileSchemas(declared.schema, options)
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    throw new ModelError(`version ${declared.name}: ${error.message}`, { cause: error })
  }
}
