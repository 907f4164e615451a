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
  readonly [extension: `x-${string}`]: unknown
}

/**
 * The TypeScript type of the values that a schema describes; `unknown` if the schema does not say.
 *
 * A field that is not `required` is optional, even with a `default`, since writers may omit it. `anyOf`, `oneOf` and
 * `allOf` are ignored next to a `type`, since they only narrow it.
 */
export type FromSchema<S> = S extends { readonly nullable: true } ? FromNonNull<S> | null : FromNonNull<S>

type FromNonNull<S> = S extends { readonly enum: readonly (infer E)[] }
  ? E
  : S extends { readonly 'x-kubernetes-int-or-string': true }
    ? number | string
    : S extends { readonly type: infer Type }
      ? FromType<S, Type>
      : S extends { readonly properties: object }
        ? FromObject<S>
        : S extends { readonly anyOf: readonly (infer Part)[] }
          ? FromEach<Part>
          : S extends { readonly oneOf: readonly (infer Part)[] }
            ? FromEach<Part>
            : S extends { readonly allOf: readonly [infer First, ...infer Rest] }
              ? FromSchema<First> & FromAll<Rest>
              : unknown

type FromType<S, Type> = [Type] extends ['string']
  ? string
  : [Type] extends ['integer' | 'number']
    ? number
    : [Type] extends ['boolean']
      ? boolean
      : [Type] extends ['array']
        ? S extends { readonly items: infer I }
          ? FromSchema<I>[]
          : unknown[]
        : [Type] extends ['object']
          ? FromObject<S>
          : unknown

/** A union of the types of all parts. */
type FromEach<Part> = Part extends unknown ? FromSchema<Part> : never
type FromAll<Parts> = Parts extends readonly [infer First, ...infer Rest]
  ? FromSchema<First> & FromAll<Rest>
  : unknown

type FromObject<S> = S extends { readonly properties: infer P }
  ? Simplify<
      { -readonly [K in keyof P as K extends RequiredOf<S> ? K : never]: FromSchema<P[K]> } & {
        -readonly [K in keyof P as K extends RequiredOf<S> ? never : K]?: FromSchema<P[K]>
      } & MoreOf<S>
    >
  : S extends { readonly additionalProperties: false }
    ? Record<string, never>
    : S extends { readonly additionalProperties: infer A extends Schema }
      ? Record<string, FromSchema<A>>
      : Record<string, unknown>

/** Additional fields, if the schema explicitly allows them. */
type MoreOf<S> = S extends { readonly additionalProperties: true | object }
  ? { [name: string]: unknown }
  : unknown
type RequiredOf<S> = S extends { readonly required: readonly (infer R)[] } ? R : never
type Simplify<T> = { [K in keyof T]: T[K] }
