import { compareApiVersions } from '@setpoint/controller-runtime/api'
import type { ServedModel } from './served-model.ts'

/** A model clashes with one that is already served. */
export class ModelConflictError extends Error {
  override readonly name = 'ModelConflictError'
}

/** The models that this server serves. */
export class ModelRegistry {
  readonly #byPath = new Map<string, ServedModel>()
  readonly #byResource = new Map<string, ServedModel>()
  #changes = 0

  /** Rises whenever a model comes or goes. */
  get changes(): number {
    return this.#changes
  }

  /** @throws ModelConflictError if the resource or the kind is taken; the message names both owners */
  add(served: ServedModel): void {
    const { group, kind, plural } = served.model
    const holder = this.#byResource.get(served.resource)
    if (holder !== undefined) {
      throw new ModelConflictError(
        `${served.resource} of ${ownerOf(served)} is already served: declared by ${ownerOf(holder)} as ${holder.model.kind} ${holder.model.version}`,
      )
    }
    for (const other of this.#byResource.values()) {
      if (other.model.group !== group || other.model.kind !== kind) continue
      const shared = served.versions.find(({ name }) => other.versions.some(each => each.name === name))
      if (shared !== undefined) {
        throw new ModelConflictError(
          `kind ${kind} of ${shared.apiVersion} of ${ownerOf(served)} is already served: declared by ${ownerOf(other)} as ${other.model.plural}`,
        )
      }
    }
    this.#changes++
    this.#byResource.set(served.resource, served)
    for (const { apiVersion } of served.versions) this.#byPath.set(`${apiVersion}/${plural}`, served)
  }

  remove(served: ServedModel): void {
    if (this.#byResource.get(served.resource) !== served) return
    this.#changes++
    this.#byResource.delete(served.resource)
    for (const { apiVersion } of served.versions) this.#byPath.delete(`${apiVersion}/${served.model.plural}`)
  }

  /** Returns the model that serves a version of a kind. */
  find(group: string, version: string, plural: string): ServedModel | undefined {
    return this.#byPath.get(group === '' ? `${version}/${plural}` : `${group}/${version}/${plural}`)
  }

  /** Returns true if the objects of a resource have secrets. False for a resource that is not served. */
  isSensitive(group: string, plural: string): boolean {
    return this.#byResource.get(`${group}/${plural}`)?.model.sensitive ?? false
  }

  findKind(apiVersion: string, kind: string): ServedModel | undefined {
    for (const served of this.#byResource.values()) {
      if (served.model.kind !== kind) continue
      if (served.versions.some(version => version.apiVersion === apiVersion)) return served
    }
    return undefined
  }

  all(): Iterable<ServedModel> {
    return this.#byResource.values()
  }

  /** Returns the versions of each group in Kubernetes' order. The groups are in the order of registration. */
  groups(): Map<string, string[]> {
    const groups = new Map<string, Set<string>>()
    for (const { model, versions } of this.all()) {
      const known = groups.get(model.group) ?? new Set()
      for (const { name } of versions) known.add(name)
      groups.set(model.group, known)
    }
    return new Map([...groups].map(([group, versions]) => [group, [...versions].sort(compareApiVersions)]))
  }
}

function ownerOf(served: ServedModel): string {
  return served.plugin === undefined ? 'the server' : `plugin ${JSON.stringify(served.plugin)}`
}
