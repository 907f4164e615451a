import { type Revision, splitObjectKey } from '@setpoint/controller-runtime/api'
import type { LogFollower, ReadGate } from '../../cache/index.ts'
import type { NamespaceBounds, NamespaceGrowth, Room } from '../../registry/index.ts'
import { forbiddenObject } from '../../security/index.ts'

/** Something that a namespace has a limited amount of. */
export interface Measure {
  /** Tells the measures of a namespace apart. */
  readonly name: string
  /** What the write adds: more than 0. */
  readonly requested: number
  /** What the caches have. @throws ApiError 503 */
  readonly used: () => number
  readonly limit: number
  /** The limit, as its author has written it. */
  readonly limitText: string
}

/** Limits that are exceeded together, under one title. */
export interface Bound {
  /** What is exceeded: `quota: team-a`. */
  readonly title: string
  readonly measures: readonly Measure[]
}

/** Knows limits of namespaces. */
export interface BoundSource {
  /** Returns what bounds a write. @throws ApiError 503 while the limits are not known */
  boundsOf(namespace: string, growth: NamespaceGrowth): readonly Bound[]
}

/** What a write of this server adds. Until the caches have the write, nothing else counts it. */
interface Taken {
  readonly measures: readonly Measure[]
  /** Undefined while the write is under way. */
  revision: Revision | undefined
}

/**
 * Checks writes against the limits of their namespace. Together, the writes of one server exceed no limit. Another
 * server knows them once they are in its caches, so several servers can exceed a limit by what they admit at the same
 * moment.
 */
export class BoundedNamespaces implements NamespaceBounds {
  readonly #sources: readonly BoundSource[]
  readonly #follower: Pick<LogFollower, 'position' | 'trouble'>
  readonly #gate: Pick<ReadGate, 'pass'>
  readonly #taken = new Map<string, Set<Taken>>()

  constructor(parts: {
    sources: readonly BoundSource[]
    follower: Pick<LogFollower, 'position' | 'trouble'>
    gate: Pick<ReadGate, 'pass'>
  }) {
    this.#sources = parts.sources
    this.#follower = parts.follower
    this.#gate = parts.gate
  }

  admit(growth: NamespaceGrowth, signal?: AbortSignal): Promise<Room> | undefined {
    const { namespace } = splitObjectKey(growth.key)
    if (namespace === undefined) return undefined
    const bounds = this.#boundsOf(namespace, growth)
    return bounds.length === 0 ? undefined : this.#take(namespace, growth, bounds, signal)
  }

  #boundsOf(namespace: string, growth: NamespaceGrowth): readonly Bound[] {
    return this.#sources.flatMap(source => source.boundsOf(namespace, growth))
  }

  async #take(
    namespace: string,
    growth: NamespaceGrowth,
    first: readonly Bound[],
    signal: AbortSignal | undefined,
  ): Promise<Room> {
    let bounds = first
    let refusal = this.#refusalOf(namespace, bounds)
    if (refusal !== undefined || this.#follower.trouble !== undefined) {
      // The caches may be behind the store.
      await this.#gate.pass(signal)
      bounds = this.#boundsOf(namespace, growth)
      refusal = this.#refusalOf(namespace, bounds)
    }
    if (refusal !== undefined) {
      const { group, plural } = growth.served.model
      throw forbiddenObject({ group, plural, name: growth.served.nameIn(growth.key) }, refusal)
    }
    // Nothing has run since the check.
    const taken: Taken = { measures: bounds.flatMap(({ measures }) => measures), revision: undefined }
    const all = this.#taken.get(namespace) ?? new Set()
    this.#taken.set(namespace, all.add(taken))
    return {
      stored: revision => {
        taken.revision = revision
      },
      release: () => {
        all.delete(taken)
        if (all.size === 0 && this.#taken.get(namespace) === all) this.#taken.delete(namespace)
      },
    }
  }

  /** Returns why a namespace has no room, as Kubernetes words it. */
  #refusalOf(namespace: string, bounds: readonly Bound[]): string | undefined {
    this.#forgetCached(namespace)
    for (const { title, measures } of bounds) {
      const exceeded = measures
        .map(measure => ({ ...measure, used: measure.used() + this.#takenOf(namespace, measure.name) }))
        .filter(({ requested, used, limit }) => used + requested > limit)
      if (exceeded.length === 0) continue
      const show = (text: (measure: (typeof exceeded)[number]) => string | number) =>
        exceeded.map(measure => `${measure.name}=${text(measure)}`).join(',')
      const requested = show(measure => measure.requested)
      const used = show(measure => measure.used)
      return `exceeded ${title}, requested: ${requested}, used: ${used}, limited: ${show(measure => measure.limitText)}`
    }
    return undefined
  }

  #takenOf(namespace: string, name: string): number {
    let sum = 0
    // A name may be in several bounds.
    for (const { measures } of this.#taken.get(namespace) ?? [])
      sum += measures.find(measure => measure.name === name)?.requested ?? 0
    return sum
  }

  /** Forgets the writes that the caches count. */
  #forgetCached(namespace: string): void {
    const all = this.#taken.get(namespace)
    if (all === undefined) return
    const { position } = this.#follower
    for (const taken of all) if (taken.revision !== undefined && taken.revision <= position) all.delete(taken)
    if (all.size === 0) this.#taken.delete(namespace)
  }
}
