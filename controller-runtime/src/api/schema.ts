/** The extensions of Kubernetes' structural schemas that the server enforces. It refuses all other `x-kubernetes-*`. */
export const kubernetesKeywords = Object.freeze([
  'x-kubernetes-embedded-resource',
  'x-kubernetes-int-or-string',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-list-type',
  'x-kubernetes-map-type',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-validations',
] as const)

/** A rule of `x-kubernetes-validations`, in CEL. */
export interface ValidationRule {
  /** True if the value is valid. `self` is the value, `oldSelf` the value before an update. */
  readonly rule: string
  /** Reported when the rule fails. Default: the rule itself. */
  readonly message?: string
  /** An expression that makes the message, a string. `message` stands in if it fails. */
  readonly messageExpression?: string
  /** Default `FieldValueInvalid`. */
  readonly reason?: 'FieldValueInvalid' | 'FieldValueForbidden' | 'FieldValueRequired' | 'FieldValueDuplicate'
  /** The field to blame, relative to the value, for example `.limits.max`. Default: the value itself. */
  readonly fieldPath?: string
  /** If true, the rule is also evaluated without an old value, and `oldSelf` is an optional. */
  readonly optionalOldSelf?: boolean
}

/** The part of an OpenAPI v3 schema that a model declares for its spec and status. */
export interface Schema {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly description?: string
  readonly title?: string
  readonly format?: string
  readonly nullable?: boolean
  readonly default?: unknown
  readonly example?: unknown
  readonly enum?: readonly unknown[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  /** OpenAPI 3.0: whether `minimum` is exclusive. */
  readonly exclusiveMinimum?: boolean
  readonly exclusiveMaximum?: boolean
  readonly multipleOf?: number
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly properties?: { readonly [name: string]: Schema }
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly allOf?: readonly Schema[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly not?: Schema
  readonly 'x-kubernetes-validations'?: readonly ValidationRule[]
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-map-type'?: 'atomic' | 'granular'
  readonly 'x-kubernetes-int-or-string'?: true
  readonly 'x-kubernetes-preserve-unknown-fields'?: true
  readonly 'x-kubernetes-embedded-resource'?: true
  readonly [extension: `x-${string}`]: unknown
}

/**
 * Which fields of an object are optional: for a reader the server has filled in the defaults; a writer may omit fields
 * with a default. Within `anyOf` and `oneOf` defaults have no effect ('plain').
 */
export type SchemaUse = 'read' | 'write' | 'plain'

/**
 * The TypeScript type of the values that a schema describes; `unknown` if the schema does not say.
 *
 * A field that is neither `required` nor has a `default` is optional. `anyOf`, `oneOf` and `allOf` are ignored next to
 * a `type`, since they only narrow it.
 */
export type FromSchema<S, Use extends SchemaUse = 'read'> = S extends { readonly nullable: true }
  ? FromNonNull<S, Use> | null
  : FromNonNull<S, Use>

type FromNonNull<S, Use extends SchemaUse> = S extends { readonly enum: readonly (infer E)[] }
  ? E
  : S extends { readonly 'x-kubernetes-int-or-string': true }
    ? number | string
    : S extends { readonly type: infer Type }
      ? FromType<S, Type, Use>
      : S extends { readonly properties: object }
        ? FromObject<S, Use>
        : S extends { readonly anyOf: readonly (infer Part)[] }
          ? FromEach<Part>
          : S extends { readonly oneOf: readonly (infer Part)[] }
            ? FromEach<Part>
            : S extends { readonly allOf: readonly [infer First, ...infer Rest] }
              ? FromSchema<First, Use> & FromAll<Rest, Use>
              : unknown

type FromType<S, Type, Use extends SchemaUse> = [Type] extends ['string']
  ? string
  : [Type] extends ['integer' | 'number']
    ? number
    : [Type] extends ['boolean']
      ? boolean
      : [Type] extends ['array']
        ? S extends { readonly items: infer I }
          ? FromSchema<I, Use>[]
          : unknown[]
        : [Type] extends ['object']
          ? S extends { readonly 'x-kubernetes-embedded-resource': true }
            ? Simplify<EmbeddedResource & FromObject<S, Use>>
            : FromObject<S, Use>
          : unknown

/** The fields of every embedded resource. */
interface EmbeddedResource {
  apiVersion: string
  kind: string
  metadata?: {
    name?: string
    generateName?: string
    namespace?: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
    finalizers?: string[]
  }
}

/** A union of the types of all parts. */
type FromEach<Part> = Part extends unknown ? FromSchema<Part, 'plain'> : never
type FromAll<Parts, Use extends SchemaUse> = Parts extends readonly [infer First, ...infer Rest]
  ? FromSchema<First, Use> & FromAll<Rest, Use>
  : unknown

type FromObject<S, Use extends SchemaUse> = S extends { readonly properties: infer P }
  ? Simplify<
      { -readonly [K in keyof P as K extends PresentIn<S, P, Use> ? K : never]: FromSchema<P[K], Use> } & {
        -readonly [K in keyof P as K extends PresentIn<S, P, Use> ? never : K]?: FromSchema<P[K], Use>
      } & MoreOf<S>
    >
  : S extends { readonly additionalProperties: false }
    ? Record<string, never>
    : S extends { readonly additionalProperties: infer A extends Schema }
      ? Record<string, FromSchema<A, Use>>
      : Record<string, unknown>

/** Additional fields, if the schema explicitly allows them. */
type MoreOf<S> = S extends
  | { readonly additionalProperties: true | object }
  | { readonly 'x-kubernetes-preserve-unknown-fields': true }
  ? { [name: string]: unknown }
  : unknown

/** The names of the fields that are not optional. */
type PresentIn<S, P, Use extends SchemaUse> = {
  read: RequiredOf<S> | DefaultedOf<P>
  write: Exclude<RequiredOf<S>, DefaultedOf<P>>
  plain: RequiredOf<S>
}[Use]
type RequiredOf<S> = S extends { readonly required: readonly (infer R)[] } ? R : never
type DefaultedOf<P> = { [K in keyof P]: P[K] extends { readonly default: unknown } ? K : never }[keyof P]
type Simplify<T> = { [K in keyof T]: T[K] }
