import {
  type AdmitLister,
  type Model,
  type ModelVersion,
  nameOfKey,
  type ObjectKey,
} from '@setpoint/controller-runtime/api'
import type { DefinedKind } from './defined-kind.ts'
import { IndexSet } from './index-set.ts'
import type { KindRules, Scope } from './kind-rules.ts'
import type { Review } from './review.ts'
import { compileSchemas, compileSchemasWhenUsed, type SchemaValidator } from './schema-validator.ts'
import { type CompileSchemas, ServedVersion } from './served-version.ts'
import { uniqueIndexId } from './unique-index-id.ts'

/**
 * The phase of a model.
 *
 *     Starting ──indexes built──▶ Started
 *        └─────fault of the plugin──▶ Failed
 *
 * Stopped is the phase of a disabled plugin's model, and of one whose plugin is being reloaded.
 */
type ModelPhase = { name: 'Starting' } | { name: 'Started' } | { name: 'Failed' | 'Stopped'; message: string }

/** Prefix of the keys of all objects. */
export const objectsPrefix = 'objects/'

interface ServedModelParts {
  readonly rules?: KindRules
  readonly review?: Review
  /** See `ServedModel.listerOf`. */
  readonly listerOf?: () => AdmitLister
  /** Default: `compileSchemas`. */
  readonly compile?: CompileSchemas
  readonly defined?: DefinedKind
}

/** A model with its compiled schemas and indexes. */
export class ServedModel {
  readonly model: Model
  /** The plugin that declared it; undefined for the server's own models. */
  readonly plugin: string | undefined
  /** `<plural>.<group>`, for messages. The core group has no name. */
  readonly title: string
  /** `<Kind>.<group>`, for messages. */
  readonly kindTitle: string
  /** What a built-in kind does beyond its model; undefined for all other kinds. */
  readonly rules: KindRules | undefined
  /** Set for a kind whose objects are answered and not stored. It has no cache. */
  readonly review: Review | undefined
  /** Set for the kind of a CustomResourceDefinition. */
  readonly defined: DefinedKind | undefined
  /** Returns what one run of the model's `admit` reads other objects with. Undefined if nothing can be read. */
  readonly listerOf: (() => AdmitLister) | undefined
  /** `<group>/<plural>`. Identifies the stored objects, which do not depend on the API version. */
  readonly resource: string
  /** Prefix of the keys of its objects. */
  readonly keyPrefix: string
  /** The version that indexes, hooks and controllers see. */
  readonly hub: ServedVersion
  /** All versions, the hub first. */
  readonly versions: readonly ServedVersion[]
  /** The version that the plugin wants objects to be stored in. The record in the store decides. */
  readonly storedVersion: ServedVersion
  /** The schemas of the hub. */
  readonly schemas: SchemaValidator
  readonly indexes: IndexSet
  /** The indexes of the versions that do not know all of them. */
  readonly #indexesOf: ReadonlyMap<ServedVersion, IndexSet>
  /** False for most built-in kinds: the strategies of these kinds in Kubernetes (`pkg/registry`) set no generation. */
  readonly hasGeneration: boolean
  /** The unique indexes among the declared ones, with their positions in `indexes`. */
  readonly uniqueIndexes: readonly {
    /** See `uniqueIndexId`. */
    readonly name: string
    readonly version: number
    readonly position: number
  }[]
  phase: ModelPhase = { name: 'Starting' }
  /**
   * The kind that takes its place because its definition has changed. It is being built until this one is stopped.
   * Writes depend on it as soon as its unique indexes are in force.
   */
  next: ServedModel | undefined

  /**
   * Returns a kind that the server itself declares. Its schemas are compiled when they are first used; a test checks
   * that they are valid.
   */
  static builtIn(model: Model, parts: Pick<ServedModelParts, 'rules' | 'review'> = {}): ServedModel {
    return new ServedModel(model, undefined, { ...parts, compile: compileSchemasWhenUsed })
  }

  /** @throws ModelError for an unusable schema */
  constructor(
    model: Model,
    plugin?: string,
    { rules, review, listerOf, compile = compileSchemas, defined }: ServedModelParts = {},
  ) {
    this.model = model
    this.plugin = plugin
    this.rules = rules
    this.review = review
    this.listerOf = listerOf
    this.defined = defined
    const suffix = model.group === '' ? '' : `.${model.group}`
    this.title = model.plural + suffix
    this.kindTitle = model.kind + suffix
    this.resource = `${model.group}/${model.plural}`
    this.keyPrefix = `${objectsPrefix}${this.resource}/`
    const isBuiltIn = rules !== undefined || review !== undefined
    const declare = (version?: ModelVersion) =>
      new ServedVersion(model, plugin, { rules, isBuiltIn, compile, defined }, version)
    this.hub = declare()
    this.versions = [this.hub, ...model.versions.map(declare)]
    this.storedVersion = this.versionNamed(model.storedVersion ?? model.version)
    this.schemas = this.hub.schemas
    this.hasGeneration = !isBuiltIn || rules?.hasGeneration === true
    this.indexes = new IndexSet(model, rules?.fieldAliases)
    this.#indexesOf = new Map(this.versions.flatMap(version => this.#withoutOthers(version)))
    this.uniqueIndexes = model.indexes.flatMap(index => {
      const position = this.indexes.indexOf(index.name)
      const { unique, version } = index
      return unique && position !== undefined ? [{ name: uniqueIndexId(index), version, position }] : []
    })
  }

  /** Returns the indexes that selectors and sorts of requests to a version know, by their positions in `indexes`. */
  indexesOf(version: ServedVersion): IndexSet {
    return this.#indexesOf.get(version) ?? this.indexes
  }

  /** The selectable fields of a definition belong to its versions. */
  #withoutOthers(version: ServedVersion): [ServedVersion, IndexSet][] {
    const all = this.versions.flatMap(({ defined }) => [...(defined?.selectable ?? [])])
    const others = all.filter(name => !version.defined?.selectable.has(name))
    return others.length === 0 ? [] : [[version, new IndexSet(this.model, {}, others)]]
  }

  /** The versions that clients can use. */
  servedVersions(): readonly ServedVersion[] {
    return this.defined === undefined ? this.versions : this.versions.filter(({ isServed }) => isServed)
  }

  /** Returns true if writes of a scope may change the metadata. */
  takesMetadata(scope: Scope): boolean {
    return scope === 'object' || (scope === 'status' && this.rules?.statusTakesMetadata === true)
  }

  /** Returns the version of a path. @throws RangeError if the model does not have it */
  versionAt({ group, version }: { readonly group: string; readonly version: string }): ServedVersion {
    // A review below another resource has the group of that resource in its path.
    if (this.review !== undefined) return this.hub
    const found = this.versions.find(each => each.name === version && each.group === group)
    if (found === undefined) throw new RangeError(`${this.resource} has no version ${version} in ${group}`)
    return found
  }

  /** Returns the version with an apiVersion. @throws RangeError if the model does not have it */
  versionOf(apiVersion: string): ServedVersion {
    const found = this.versions.find(version => version.apiVersion === apiVersion)
    if (found === undefined) throw new RangeError(`${this.resource} has no version ${apiVersion}`)
    return found
  }

  /** Returns the version with a name such as `v1`. @throws RangeError if the model does not have it */
  versionNamed(name: string): ServedVersion {
    const found = this.versions.find(version => version.name === name)
    if (found === undefined) throw new RangeError(`${this.resource} has no version ${name}`)
    return found
  }

  /**
   * Returns the name in a key. The name of a cluster-scoped object is the whole key, even if a client sends a slash.
   */
  nameIn(key: ObjectKey): string {
    return this.indexes.isNamespaced ? nameOfKey(key) : key
  }

  /** Returns the key of the store for an object. */
  keyOf(key: ObjectKey): string {
    return this.keyPrefix + key
  }
}
