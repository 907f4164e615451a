import type { ServedModel } from './served-model.ts'

/** A model clashes with one that is already served. */
export class ModelConflictError extends Error {
  override readonly name = 'ModelConflictError'
}

/** The models that this server serves. */
export class ModelRegistry {
  readonly #byPath = new Map<string, ServedModel>()
  readonly #byResource = new Map<string, ServedModel>()

  /** @throws ModelConflictError if the resource or the kind is taken; the message names both owners */
  add(served: ServedModel): void {
    const { group, version, kind, plural } = served.model
    const holder = this.#byResource.get(served.resource)
    if (holder !== undefined) {
      throw new ModelConflictError(
        `${served.resource} of ${ownerOf(served)} is already served: declared by ${ownerOf(holder)} as ${holder.model.kind} ${holder.model.version}`,
      )
    }
    for (const other of this.#byResource.values()) {
      if (other.model.group === group && other.model.version === version && other.model.kind === kind) {
        throw new ModelConflictError(
          `kind ${kind} of ${group}/${version} of ${ownerOf(served)} is already served: declared by ${ownerOf(other)} as ${other.model.plural}`,
        )
      }
    }
    this.#byResource.set(served.resource, served)
    this.#byPath.set(`${group}/${version}/${plural}`, served)
  }

  remove(served: ServedModel): void {
    const { group, version, plural } = served.model
    if (this.#byResource.get(served.resource) !== served) return
    this.#byResource.delete(served.resource)
    this.#byPath.delete(`${group}/${version}/${plural}`)
  }

  find(group: string, version: string, plural: string): ServedModel | undefined {
    return this.#byPath.get(`${group}/${version}/${plural}`)
  }

  findKind(apiVersion: string, kind: string): ServedModel | undefined {
    for (const served of this.#byResource.values()) {
      if (served.model.apiVersion === apiVersion && served.model.kind === kind) return served
    }
    return undefined
  }

  all(): Iterable<ServedModel> {
    return this.#byResource.values()
  }

  /** Returns the versions of each group, both in the order of registration. */
  groups(): Map<string, Set<string>> {
    const groups = new Map<string, Set<string>>()
    for (const { model } of this.all()) {
      const versions = groups.get(model.group) ?? new Set()
      groups.set(model.group, versions.add(model.version))
    }
    return groups
  }
}

function ownerOf(served: ServedModel): string {
  return served.plugin === undefined ? 'the server' : `plugin ${JSON.stringify(served.plugin)}`
}
