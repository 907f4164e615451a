import { isRecord } from './is-record.ts'
import { type KeysOf, unknownKeys } from './known-keys.ts'
import { checkDnsLabel } from './names.ts'
import type { ObjectMeta } from './object.ts'
import { type PrinterColumn, problemsOfColumns } from './printer-column.ts'
import type { FromSchema, Schema, SchemaUse } from './schema.ts'
import { problemOfFunction } from './synchronous.ts'

/** An object as conversion functions get it: a copy of its own, without a version. */
export interface ConvertibleObject<Spec = unknown, Status = unknown> {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: Omit<ObjectMeta, 'version' | 'resourceVersion'>
  readonly spec: Spec
  readonly status?: Status | undefined
}

/** The result of a conversion. All other parts of an object are the same in every version. */
export interface ConvertedContent<Spec = unknown, Status = unknown> {
  readonly spec: Spec
  readonly status?: Status | undefined
}

/**
 * The OpenAPI v3 schemas of an object's fields besides apiVersion, kind and metadata. Only built-in kinds have others
 * than `spec` and `status`.
 */
export interface ContentSchema {
  readonly [field: string]: Schema | undefined
}

/** The OpenAPI v3 schemas of `spec` and `status` in one version. A type, so that it is a `ContentSchema`. */
export type VersionSchema = {
  readonly spec: Schema
  readonly status?: Schema
}

type StatusOf<S extends VersionSchema, Use extends SchemaUse> = S extends { readonly status: infer Status }
  ? FromSchema<Status, Use>
  : Record<string, unknown>
type ConvertibleOf<S extends VersionSchema> = ConvertibleObject<FromSchema<S['spec']>, StatusOf<S, 'read'>>
/** Fields with a default may be left out: the server sets them. */
type ContentOf<S extends VersionSchema> = ConvertedContent<
  FromSchema<S['spec'], 'write'>,
  StatusOf<S, 'write'>
>

/**
 * A version of a kind other than its hub. Conversions are synchronous and pure: the same object always gives the same
 * result. One that throws fails the request with 500.
 */
export interface VersionDeclaration<
  S extends VersionSchema = VersionSchema,
  Hub extends VersionSchema = VersionSchema,
> {
  /** The API version, such as `v1beta1`. */
  readonly name: string
  readonly schema: S
  /** What to do instead. Requests to this version get it in a `Warning` header. */
  readonly deprecated?: string
  /** The columns of tables of this version. Default: those of the hub. */
  readonly printerColumns?: readonly PrinterColumn[]
  /**
   * Converts an object of this version to the hub. `previous` is the stored object at the hub when a request changes
   * it, so that what only the hub has can be kept. It is undefined when an object is created or read from the store.
   */
  toHub(old: ConvertibleOf<S>, context: { readonly previous: ConvertibleOf<Hub> | undefined }): ContentOf<Hub>
  /** Converts an object at the hub to this version. */
  fromHub(hub: ConvertibleOf<Hub>): ContentOf<S>
}

/** The versions of a declaration, each with its own schema. */
export type VersionDeclarations<V extends readonly VersionSchema[], Hub extends VersionSchema> = {
  readonly [K in keyof V]: VersionDeclaration<V[K], Hub>
}

/** A version of a model other than its hub. */
export interface ModelVersion {
  readonly name: string
  /** `<group>/<name>` */
  readonly apiVersion: string
  readonly schema: ContentSchema
  readonly deprecated?: string
  readonly printerColumns?: readonly PrinterColumn[]
  // Method syntax, because it is bivariant: the functions take objects of the declared schemas.
  toHub(
    old: ConvertibleObject,
    context: { readonly previous: ConvertibleObject | undefined },
  ): ConvertedContent<unknown, Record<string, unknown>>
  fromHub(hub: ConvertibleObject): ConvertedContent<unknown, Record<string, unknown>>
}

/** Returns the problems of `versions` and `storedVersion` in a declaration. */
export function problemsOfVersions(hub: unknown, versions: unknown, storedVersion: unknown): string[] {
  if (!Array.isArray(versions)) return ['versions must be an array']
  const problems: string[] = []
  const names = new Set([hub])
  for (const declared of versions) {
    if (!isRecord(declared)) {
      problems.push('each of versions must be an object with name, schema, toHub and fromHub')
      continue
    }
    const { name, schema, deprecated, printerColumns = [], toHub, fromHub } = declared
    const problem = typeof name === 'string' ? checkDnsLabel(name) : 'must be a string'
    if (problem !== undefined) problems.push(`the name of a version ${problem}`)
    else if (names.has(name)) problems.push(`version ${name} is declared twice`)
    names.add(name)
    const which = `version ${JSON.stringify(name)}`
    problems.push(...unknownKeys(declared, versionKeys, which))
    if (isRecord(schema)) problems.push(...unknownKeys(schema, schemaKeys, `schema of ${which}`))
    const spec = isRecord(schema) ? schema.spec : undefined
    if (!isRecord(spec)) problems.push(`${which}: schema.spec must be an OpenAPI v3 schema`)
    if (deprecated !== undefined && (typeof deprecated !== 'string' || deprecated === ''))
      problems.push(`${which}: deprecated must be the text of the warning`)
    problems.push(...problemsOfColumns(printerColumns).map(problem => `${which}: ${problem}`))
    for (const [name, given] of Object.entries({ toHub, fromHub })) {
      const problem = problemOfFunction(given)
      if (problem !== undefined) problems.push(`${which}: ${name} ${problem}`)
    }
  }
  if (storedVersion !== undefined && !names.has(storedVersion))
    problems.push(
      `storedVersion ${JSON.stringify(storedVersion)} is not a version of the model: it has ${[...names].join(', ')}`,
    )
  return problems
}

/** With `apiVersion`, because a declaration may take the versions of another model. */
const versionKeys: KeysOf<VersionDeclaration & ModelVersion> = {
  name: true,
  schema: true,
  deprecated: true,
  printerColumns: true,
  toHub: true,
  fromHub: true,
  apiVersion: true,
}
const schemaKeys: KeysOf<VersionSchema> = { spec: true, status: true }

/**
 * Compares API versions for sorting, in Kubernetes' order: general availability first, then beta and alpha, each from
 * the newest (v2, v1, v2beta1, v1beta2, v1beta1, v1alpha1). Other names follow, in alphabetical order.
 */
export function compareApiVersions(left: string, right: string): number {
  const a = rankOf(left)
  const b = rankOf(right)
  if (a === undefined || b === undefined) {
    if (a !== undefined) return -1
    if (b !== undefined) return 1
    return left < right ? -1 : left > right ? 1 : 0
  }
  return b.stage - a.stage || b.major - a.major || b.minor - a.minor
}

const stages = ['alpha', 'beta', undefined]

function rankOf(version: string): { stage: number; major: number; minor: number } | undefined {
  const found = /^v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?$/.exec(version)
  if (found === null) return undefined
  const [, major, stage, minor = 0] = found
  return { stage: stages.indexOf(stage), major: Number(major), minor: Number(minor) }
}
