/**
 * A field of a Go struct of Kubernetes. It describes both encodings of an object, and how strategic merge patches treat
 * the field.
 */
export interface GoField {
  /** The number of the field in protobuf. */
  readonly number: number
  /** The name of the field in JSON. Empty for an inline one. */
  readonly name: string
  /** An inline struct is a message of its own in protobuf. In JSON, its fields are among the others. */
  readonly form: 'value' | 'pointer' | 'list' | 'map' | 'inline'
  /** The type of the value or of each item: a `GoLeaf`, or the name of a struct. */
  readonly type: string
  /** True if JSON leaves out an empty value. */
  readonly omitted?: true
  /** `patchStrategy` */
  readonly strategy?: readonly string[]
  /** `patchMergeKey` */
  readonly mergeKey?: string
}

/** The fields of a struct. */
export type GoStruct = readonly GoField[]

/** Structs by name, such as `core.v1.ConfigMap`. */
export type GoStructs = Readonly<Record<string, GoStruct>>

/** The types that are not structs, or have a JSON form of their own. */
export const goLeaves = [
  'string',
  'bool',
  'int32',
  'int64',
  'bytes',
  'strings',
  'Time',
  'MicroTime',
  'FieldsV1',
  'Quantity',
] as const
