import { compareApiVersions, type Model } from '@setpoint/controller-runtime/api'
import type { ServedModel } from './served-model.ts'

/** A model clashes with one that is already served. */
export class ModelConflictError extends Error {
  override readonly name = 'ModelConflictError'
}

/** The models that this server serves, to its clients or to itself. */
export class ModelRegistry {
  readonly #hidesBuiltIn: boolean
  readonly #byPath = new Map<string, ServedModel>()
  readonly #byResource = new Map<string, ServedModel>()
  readonly #reviews: ServedModel[] = []
  #changes = 0
  readonly #observers = new Set<() => void>()

  /** @param options `hidesBuiltIn`: only the server itself uses the built-in kinds of Kubernetes */
  constructor({ hidesBuiltIn = false }: { readonly hidesBuiltIn?: boolean } = {}) {
    this.#hidesBuiltIn = hidesBuiltIn
  }

  /** Rises whenever a model comes or goes. */
  get changes(): number {
    return this.#changes
  }

  /** Calls back after each such change, in a later turn. Returns a function that ends it. */
  observe(changed: () => void): () => void {
    this.#observers.add(changed)
    return () => this.#observers.delete(changed)
  }

  #changed(): void {
    this.#changes++
    for (const changed of this.#observers) setImmediate(changed)
  }

  /** @throws ModelConflictError if the resource or the kind is taken; the message names both owners */
  add(served: ServedModel): void {
    const conflict = this.conflictOf(served)
    if (conflict !== undefined) throw conflict
    this.#changed()
    this.#byResource.set(served.resource, served)
    for (const { apiVersion } of served.servedVersions())
      this.#byPath.set(`${apiVersion}/${served.model.plural}`, served)
  }

  /**
   * Adds a kind that was served before. Kinds of plugins that declare its names and are not served are removed.
   * @throws ModelConflictError as `add`
   */
  restore(served: ServedModel): void {
    for (const other of [...this.#byResource.values()])
      if (other.plugin !== undefined && other.phase.name !== 'Started' && conflictOf(served, other))
        this.remove(other)
    this.add(served)
  }

  /** Returns why a kind cannot be added, or undefined. */
  conflictOf(served: ServedModel): ModelConflictError | undefined {
    for (const other of this.#byResource.values()) {
      const conflict = conflictOf(served, other)
      if (conflict !== undefined) return new ModelConflictError(conflict)
    }
    return undefined
  }

  /** Returns true if the kind has been added and not been removed. */
  has(served: ServedModel): boolean {
    return this.#byResource.get(served.resource) === served
  }

  /** Returns true if a kind of this `<group>/<plural>` has been added, served or not. */
  holds(resource: string): boolean {
    return this.#byResource.has(resource) || this.#reviews.some(served => served.resource === resource)
  }

  /** Serves a kind whose objects are not stored. `all` does not return it. */
  addReview(served: ServedModel): void {
    this.#changed()
    this.#reviews.push(served)
    const { group, version, plural } = reviewPathOf(served)
    this.#byPath.set(pathOf(group, version, plural), served)
  }

  remove(served: ServedModel): void {
    if (!this.has(served)) return
    this.#changed()
    this.#byResource.delete(served.resource)
    for (const { apiVersion } of served.versions) this.#byPath.delete(`${apiVersion}/${served.model.plural}`)
  }

  /**
   * Returns the model that serves a version of a kind. The plural of a subresource's review is
   * `<plural>/<subresource>`.
   */
  find(group: string, version: string, plural: string): ServedModel | undefined {
    return this.#byPath.get(pathOf(group, version, plural))
  }

  /** Returns true if the objects of a resource have secrets. False for a resource that is not served. */
  isSensitive(group: string, plural: string): boolean {
    return this.#byResource.get(`${group}/${plural}`)?.model.sensitive ?? false
  }

  /** Returns the visible model of a kind. */
  findKind(apiVersion: string, kind: string): ServedModel | undefined {
    for (const served of this.visible()) {
      if (served.model.kind !== kind) continue
      if (served.servedVersions().some(version => version.apiVersion === apiVersion)) return served
    }
    return undefined
  }

  /** The models whose objects are stored. */
  all(): Iterable<ServedModel> {
    return this.#byResource.values()
  }

  /** The models whose objects are stored and that clients can see. */
  *visible(): Iterable<ServedModel> {
    for (const served of this.all()) if (this.isVisible(served)) yield served
  }

  isVisible({ hub }: ServedModel): boolean {
    return !this.#hidesBuiltIn || !hub.isBuiltIn
  }

  /** The kinds whose objects are answered and not stored, and that clients can see. */
  reviews(): readonly ServedModel[] {
    return this.#reviews.filter(served => this.isVisible(served))
  }

  /** Returns the visible versions of each group in Kubernetes' order. The groups are in the order of registration. */
  groups(): Map<string, string[]> {
    const groups = new Map<string, Set<string>>()
    const add = (group: string, version: string) =>
      groups.set(group, (groups.get(group) ?? new Set()).add(version))
    for (const served of this.visible())
      for (const { group, name } of served.servedVersions()) add(group, name)
    for (const { group, version } of this.reviews().map(reviewPathOf)) add(group, version)
    return new Map([...groups].map(([group, versions]) => [group, [...versions].sort(compareApiVersions)]))
  }
}

/** Returns why two kinds cannot both be served, or undefined. */
function conflictOf(served: ServedModel, other: ServedModel): string | undefined {
  const [owner, holder] = [ownerOf(served), ownerOf(other)]
  const { kind, plural, version } = other.model
  if (served.resource === other.resource)
    return `${served.resource} of ${owner} is already served: declared by ${holder} as ${kind} ${version}`
  if (served.model.kind !== kind) return undefined
  const shared = served.versions.find(({ apiVersion }) =>
    other.versions.some(each => each.apiVersion === apiVersion),
  )
  return (
    shared &&
    `kind ${kind} of ${shared.apiVersion} of ${owner} is already served: declared by ${holder} as ${plural}`
  )
}

/** Returns the place of a review in the API. The plural of a subresource is `<plural>/<subresource>`. */
export function reviewPathOf({ model, review }: ServedModel): Pick<Model, 'group' | 'version' | 'plural'> {
  const { parent } = review ?? {}
  if (parent === undefined) return model
  return { ...parent, plural: `${parent.plural}/${parent.subresource}` }
}

function pathOf(group: string, version: string, plural: string): string {
  return group === '' ? `${version}/${plural}` : `${group}/${version}/${plural}`
}

function ownerOf(served: ServedModel): string {
  if (served.defined !== undefined) return `the definition ${JSON.stringify(served.defined.definition)}`
  return served.plugin === undefined ? 'the server' : `plugin ${JSON.stringify(served.plugin)}`
}
