import {
  type ContentSchema,
  type ConvertibleObject,
  isRecord,
  type Model,
  ModelError,
  type ModelVersion,
  type PrinterColumn,
} from '@setpoint/controller-runtime/api'
import type { BareObject } from './bare-object.ts'
import { ConversionError } from './conversion-error.ts'
import type { Converter } from './converter.ts'
import type { DefinedKind, DefinedVersion } from './defined-kind.ts'
import type { ComputedColumn, KindRules } from './kind-rules.ts'
import { withoutNulls, withoutNullsAsInGo } from './schema-defaults.ts'
import type { SchemaOptions, SchemaValidator } from './schema-validator.ts'
import { thrownMessage } from './thrown-message.ts'

/** A function like `compileSchemas`. */
export type CompileSchemas = (schema: ContentSchema, options: SchemaOptions) => SchemaValidator

interface VersionParts {
  readonly rules: KindRules | undefined
  /** True for a built-in kind of Kubernetes. */
  readonly isBuiltIn: boolean
  readonly compile: CompileSchemas
  readonly defined: DefinedKind | undefined
}

/**
 * One API version of a served kind. The hub converts by returning the object itself.
 *
 * A conversion gets a copy and returns the fields that the schema declares: of a plugin's kind `spec` and `status`.
 * Metadata and unknown top-level fields are the same in every version.
 */
export class ServedVersion {
  readonly name: string
  /** The group of the kind. A built-in kind may have a version in another group. */
  readonly group: string
  /** `<group>/<name>` */
  readonly apiVersion: string
  readonly kind: string
  /** The kind of lists. */
  readonly listKind: string
  readonly isHub: boolean
  /** True for a version of a built-in kind. Its schema declares all fields, and bodies may omit apiVersion and kind. */
  readonly isBuiltIn: boolean
  /** Set for a version in a CustomResourceDefinition. Kubernetes decides how its objects are treated. */
  readonly defined: DefinedVersion | undefined
  /** The schemas of the fields besides apiVersion, kind and metadata. */
  readonly content: ContentSchema
  readonly schemas: SchemaValidator
  /** The columns of tables: those of the version, else those of the hub. A built-in kind may compute them. */
  readonly printerColumns: readonly (PrinterColumn | ComputedColumn)[]
  /** The text of the `Warning` header of every response, or undefined. */
  readonly warning: string | undefined
  /** The wire JSON of every object begins with this, followed by the name. */
  readonly wirePrefix: string
  readonly #model: Model
  readonly #plugin: string | undefined
  /** Undefined for the hub. */
  readonly #declared: ModelVersion | undefined
  readonly #hubContent: ContentSchema
  readonly #converter: Converter | undefined

  /** @throws ModelError for an unusable schema */
  constructor(
    model: Model,
    plugin: string | undefined,
    { rules, isBuiltIn, compile, defined }: VersionParts,
    declared?: ModelVersion,
  ) {
    const { name, apiVersion } = declared ?? { name: model.version, apiVersion: model.apiVersion }
    const { schema } = declared ?? model
    this.name = name
    this.group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : ''
    this.apiVersion = apiVersion
    this.kind = model.kind
    this.listKind = defined?.listKind ?? `${model.kind}List`
    this.isHub = declared === undefined
    this.isBuiltIn = isBuiltIn
    this.defined = defined?.versions.get(name)
    const hasAllFields = isBuiltIn || defined !== undefined
    this.content = contentSchema(schema, hasAllFields)
    this.schemas = compiled(compile, this.content, model, declared, this.defined)
    this.#hubContent = contentSchema(model.schema, hasAllFields)
    this.printerColumns = rules?.columns ?? declared?.printerColumns ?? model.printerColumns
    this.warning =
      this.defined?.warning ??
      (declared?.deprecated && `${apiVersion} ${model.kind} is deprecated: ${declared.deprecated}`)
    this.wirePrefix = `{"apiVersion":${JSON.stringify(apiVersion)},"kind":${JSON.stringify(model.kind)},"metadata":{"name":"`
    this.#model = model
    this.#plugin = plugin
    this.#declared = declared
    this.#converter = defined?.converter
  }

  /** True if a conversion may also change labels and annotations. */
  get convertsMetadata(): boolean {
    return this.#converter !== undefined && !this.isHub
  }

  /** True if writes to the object leave its status alone, and writes to its status all else. */
  get hasStatus(): boolean {
    return this.defined?.hasStatus ?? this.#model.subresources.status
  }

  /** True if clients can use the version. */
  get isServed(): boolean {
    return this.defined?.isServed ?? true
  }

  /**
   * Returns content without the nulls that Kubernetes drops: of a plugin's kind those of fields that are not nullable.
   */
  withoutNulls(content: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const drop = this.isBuiltIn ? withoutNullsAsInGo : withoutNulls
    const result = drop({ properties: this.content }, content)
    return isRecord(result) ? result : {}
  }

  /** Converts an object at the hub to this version. @throws ConversionError; ConversionNeeded */
  fromHub(hub: BareObject): BareObject {
    const declared = this.#declared
    if (declared === undefined) return hub
    if (this.defined !== undefined) return this.schemas.prune(this.#convertDefined(hub, this.apiVersion))
    const to = { apiVersion: this.apiVersion, name: this.name, content: this.content }
    const convert = () => declared.fromHub(copyOf(hub))
    return this.schemas.prune(this.#convert(hub, this.#hubContent, this.#model.version, to, convert))
  }

  /**
   * Converts an object of this version to the hub.
   * @param previous the stored object at the hub, if a request changes it
   * @throws ConversionError; ConversionNeeded
   */
  toHub(object: BareObject, previous?: BareObject): BareObject {
    const declared = this.#declared
    if (declared === undefined) return object
    const { apiVersion, version: name } = this.#model
    if (this.defined !== undefined) return this.#convertDefined(object, apiVersion)
    const to = { apiVersion, name, content: this.#hubContent }
    return this.#convert(object, this.content, this.name, to, () =>
      declared.toHub(copyOf(object), { previous: previous && copyOf(previous) }),
    )
  }

  /** Returns the error of a failed conversion of an object between two versions. */
  failure(name: string, from: string, to: string, problem: string, cause?: unknown): ConversionError {
    const { group, plural } = this.#model
    const who = this.#plugin === undefined ? 'the server' : `plugin ${this.#plugin}`
    const message = `${who} failed to convert ${plural}.${group} ${JSON.stringify(name)} from ${from} to ${to}`
    const details = { group, kind: plural, name }
    return new ConversionError(message, { plugin: this.#plugin, to, problem, details, cause })
  }

  /** Returns the failure of an object of this version that a webhook has not converted to the hub yet. */
  notConverted({ metadata: { name } }: BareObject): ConversionError {
    const { group, plural, version: to } = this.#model
    const message = `${plural}.${group} ${JSON.stringify(name)} has not been converted from ${this.name} to ${to} yet`
    const details = { group, kind: plural, name }
    return new ConversionError(message, {
      to,
      problem: 'it has not been converted yet',
      mayPass: true,
      details,
    })
  }

  /** The strategies of Kubernetes: Webhook, or None, which only changes the apiVersion. */
  #convertDefined(object: BareObject, apiVersion: string): BareObject {
    return this.#converter?.convert(object, apiVersion) ?? { ...object, apiVersion }
  }

  #convert(
    object: BareObject,
    source: ContentSchema,
    from: string,
    to: { readonly apiVersion: string; readonly name: string; readonly content: ContentSchema },
    convert: () => unknown,
  ): BareObject {
    const { kind, metadata, apiVersion: _apiVersion, ...content } = object
    try {
      const { spec, ...others } = contentOf(convert(), to.content)
      const converted: BareObject = { apiVersion: to.apiVersion, kind, metadata, spec }
      if (spec === undefined) delete converted.spec
      Object.assign(converted, others)
      for (const [field, value] of Object.entries(content))
        if (!Object.hasOwn(source, field)) converted[field] = value
      return converted
    } catch (error) {
      const problem = thrownMessage(error, this.#model.sensitive)
      throw this.failure(metadata.name, from, to.name, problem, error)
    }
  }
}

/** A copy, because a conversion that changes its argument must not change what is stored. */
function copyOf(object: BareObject): ConvertibleObject {
  return JSON.parse(JSON.stringify(object))
}

/** Objects of a plugin's kind may have a status even if the schema does not describe it. */
function contentSchema(schema: ContentSchema, hasAllFields: boolean): ContentSchema {
  return hasAllFields ? schema : { spec: schema.spec, status: schema.status ?? { type: 'object' } }
}

/** Returns the result of a conversion as a JSON value of its own. @throws TypeError that names the mistake */
function contentOf(result: unknown, schema: ContentSchema): Record<string, unknown> {
  if (result instanceof Promise) {
    result.catch(() => {})
    throw new TypeError('it returned a promise, but conversions are synchronous')
  }
  const wanted = `it must return an object with ${Object.keys(schema).join(' and ')}`
  if (!isRecord(result)) throw new TypeError(wanted)
  const content = JSON.parse(JSON.stringify(result))
  const unknown = Object.keys(content).filter(key => !Object.hasOwn(schema, key))
  if (unknown.length > 0) throw new TypeError(`${wanted}, not with ${unknown.join(', ')}`)
  if (schema.spec !== undefined && content.spec === undefined) throw new TypeError('it returned no spec')
  return content
}

function compiled(
  compile: CompileSchemas,
  schema: ContentSchema,
  { sensitive: isSensitive, prune: prunes }: Model,
  declared: ModelVersion | undefined,
  defined: DefinedVersion | undefined,
): SchemaValidator {
  try {
    return compile(schema, { isSensitive, prunes, root: defined?.root })
  } catch (error) {
    if (declared === undefined || !(error instanceof ModelError)) throw error
    throw new ModelError(`version ${declared.name}: ${error.message}`, { cause: error })
  }
}
