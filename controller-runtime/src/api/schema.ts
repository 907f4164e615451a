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
  /** OpenAPI 3.0: whether `minimum` itself is excluded. */
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

/** The TypeScript type of the values that a schema describes. */
export type FromSchema<S> = S extends { readonly nullable: true } ? FromNonNull<S> | null : FromNonNull<S>

type FromNonNull<S> = S extends { readonly enum: readonly (infer E)[] }
  ? E
  : S extends { readonly type: 'string' }
    ? string
    : S extends { readonly type: 'integer' | 'number' }
      ? number
      : S extends { readonly type: 'boolean' }
        ? boolean
        : S extends { readonly type: 'array' }
          ? S extends { readonly items: infer I }
            ? FromSchema<I>[]
            : unknown[]
          : S extends { readonly type: 'object' }
            ? FromObject<S>
            : unknown

type FromObject<S> = S extends { readonly properties: infer P }
  ? Simplify<
      { -readonly [K in keyof P as K extends RequiredOf<S> ? K : never]: FromSchema<P[K]> } & {
        -readonly [K in keyof P as K extends RequiredOf<S> ? never : K]?: FromSchema<P[K]>
      }
    >
  : S extends { readonly additionalProperties: infer A extends Schema }
    ? Record<string, FromSchema<A>>
    : Record<string, unknown>

type RequiredOf<S> = S extends { readonly required: readonly (infer R)[] } ? R : never
type Simplify<T> = { [K in keyof T]: T[K] }
