import { contentBytes } from '../model/index.ts'
import type { Entry } from './entry.ts'

/** What a namespace holds of one kind. */
export interface NamespaceUsage {
  readonly objects: number
  /** Bytes of the objects' JSON, without their versions. */
  readonly bytes: number
}

const nothing: NamespaceUsage = Object.freeze({ objects: 0, bytes: 0 })

/** Counts the objects of one kind in each namespace, so that a quota is checked without looking at them. */
export class NamespaceUsages {
  readonly #byNamespace = new Map<string, { objects: number; bytes: number }>()

  of(namespace: string): NamespaceUsage {
    return this.#byNamespace.get(namespace) ?? nothing
  }

  /** Follows a change of an object. Ignores objects without a namespace. */
  changed(next: Entry | undefined, previous: Entry | undefined): void {
    const namespace = next?.namespace ?? previous?.namespace
    if (namespace === undefined) return
    const usage = this.#byNamespace.get(namespace) ?? { objects: 0, bytes: 0 }
    usage.objects += (next === undefined ? 0 : 1) - (previous === undefined ? 0 : 1)
    usage.bytes += sizeOf(next) - sizeOf(previous)
    if (usage.objects === 0) this.#byNamespace.delete(namespace)
    else this.#byNamespace.set(namespace, usage)
  }
}

function sizeOf(entry: Entry | undefined): number {
  return entry === undefined ? 0 : contentBytes(entry.bytes, entry.revision)
}
