import type { Converter } from './converter.ts'
import type { JsonObject } from './json-value.ts'

/** What a definition says of its kind, and a model cannot. */
export interface DefinedKind {
  /** Name of the CustomResourceDefinition: `<plural>.<group>`. */
  readonly definition: string
  /** The uid of the definition. */
  readonly uid: string
  /** By name, also those that are not served. */
  readonly versions: ReadonlyMap<string, DefinedVersion>
  /** The default is `<Kind>List`. */
  readonly listKind: string
  /** Undefined if conversions only change the apiVersion. */
  readonly converter?: Converter | undefined
}

/** One version in a definition. */
export interface DefinedVersion {
  /** False if clients cannot use the version, although objects may be stored in it. */
  readonly isServed: boolean
  /** The schema of whole objects: `openAPIV3Schema`. */
  readonly root: JsonObject
  readonly hasStatus: boolean
  readonly scale: ScalePaths | undefined
  /** The text of the `Warning` header of every response, if the version is deprecated. */
  readonly warning: string | undefined
  /** Names of the indexes that only requests to this version know. */
  readonly selectable: ReadonlySet<string>
}

/** Where an object keeps what its `scale` shows. JSONPaths of fields, such as `.spec.replicas`. */
export interface ScalePaths {
  readonly spec: string
  readonly status: string
  readonly selector: string | undefined
}
