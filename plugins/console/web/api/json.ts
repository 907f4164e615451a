export type Fields = { readonly [name: string]: unknown }

/** Input is unknown until it is parsed: these read it without trusting it. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {}
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

export function textsOf(value: unknown): readonly string[] {
  return listOf(value).filter(each => typeof each === 'string')
}

/** An object of the API. */
export interface ApiObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: Meta
  readonly [field: string]: unknown
}

export interface Meta {
  readonly name: string
  readonly namespace: string | undefined
  readonly uid: string
  readonly version: string
  readonly creationTimestamp: string
  readonly deletionTimestamp: string | undefined
  readonly finalizers: readonly string[]
  readonly [field: string]: unknown
}

/** Reads an object of a response. The items of some lists lack apiVersion and kind. */
export function objectOf(value: unknown, known: { apiVersion: string; kind: string }): ApiObject {
  const fields = fieldsOf(value)
  const metadata = fieldsOf(fields.metadata)
  return {
    ...fields,
    apiVersion: textOf(fields.apiVersion) || known.apiVersion,
    kind: textOf(fields.kind) || known.kind,
    metadata: {
      ...metadata,
      name: textOf(metadata.name),
      namespace: textOf(metadata.namespace) || undefined,
      uid: textOf(metadata.uid),
      version: textOf(metadata.version) || textOf(metadata.resourceVersion),
      creationTimestamp: textOf(metadata.creationTimestamp),
      deletionTimestamp: textOf(metadata.deletionTimestamp) || undefined,
      finalizers: textsOf(metadata.finalizers),
    },
  }
}

/** Compares two versions, which are decimal numbers that may be longer than a number is exact. */
export function isNewer(version: string, than: string): boolean {
  return version.length === than.length ? version > than : version.length > than.length
}
