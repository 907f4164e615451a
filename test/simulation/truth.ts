import type { Commit, History } from './history.ts'

/** The state of an object from one revision to the next. */
export interface State {
  readonly commit: Commit
  /** The next change of the object. */
  readonly until: Commit | undefined
}

/** What was stored at each revision. */
export class Truth {
  readonly commits: readonly Commit[]
  readonly #byRevision = new Map<number, Commit>()
  readonly #byObject = new Map<string, Commit[]>()
  readonly #known: readonly { readonly at: number; readonly revision: number }[]

  constructor(history: History) {
    this.commits = history.commits
    for (const commit of history.commits) {
      this.#byRevision.set(commit.revision, commit)
      const id = idOf(commit.resource, commit.namespace, commit.name)
      const states = this.#byObject.get(id)
      if (states === undefined) this.#byObject.set(id, [commit])
      else states.push(commit)
    }
    this.#known = knownOf(history)
  }

  at(revision: number): Commit | undefined {
    return this.#byRevision.get(revision)
  }

  /** Returns the changes of an object, in order. */
  of(resource: string, namespace: string | undefined, name: string): readonly Commit[] {
    return this.#byObject.get(idOf(resource, namespace, name)) ?? []
  }

  before({ resource, namespace, name, revision }: Commit): Commit | undefined {
    return this.of(resource, namespace, name).findLast(each => each.revision < revision)
  }

  after({ resource, namespace, name, revision }: Commit): Commit | undefined {
    return this.of(resource, namespace, name).find(each => each.revision > revision)
  }

  /** Returns the objects of a kind at a revision, in the order of their keys. */
  stateAt(resource: string, revision: number): Commit[] {
    const state: Commit[] = []
    for (const states of this.#byObject.values()) {
      if (states[0]?.resource !== resource) continue
      const last = states.findLast(each => each.revision <= revision)
      if (last?.object !== undefined) state.push(last)
    }
    return state.toSorted((a, b) => compare(sortKey(a), sortKey(b)))
  }

  /** Returns the last revision that was committed up to a time. */
  committedBy(time: number): number {
    return this.commits.findLast(({ at }) => at <= time)?.revision ?? 0
  }

  /** Returns the highest revision that any client had learnt of before a time, so that later reads must include it. */
  knownBefore(time: number): number {
    let low = 0
    let high = this.#known.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#known[middle]?.at ?? Number.POSITIVE_INFINITY) < time) low = middle + 1
      else high = middle
    }
    return this.#known[low - 1]?.revision ?? 0
  }

  /** Returns whether an object was in a state at some moment of a time, where a revision counts if a client could see it. */
  wasEver(
    { resource, namespace, name }: Pick<Commit, 'resource' | 'namespace' | 'name'>,
    { from, to }: { readonly from: number; readonly to: number },
    holds: (commit: Commit | undefined) => boolean,
  ): boolean {
    const floor = this.knownBefore(from)
    const commits = this.of(resource, namespace, name).filter(({ at }) => at <= to)
    const first = commits.findLastIndex(({ revision }) => revision <= floor)
    if (holds(commits[first])) return true
    return commits.slice(first + 1).some(holds)
  }
}

/** The highest version that an acknowledged write or a fresh read had, rising with the time of its response. */
function knownOf({ calls, restores }: History): { at: number; revision: number }[] {
  // Nobody gets an earlier state after a restore.
  const known: { at: number; revision: number }[] = [...restores]
  for (const { outcome } of calls) {
    if (outcome.type !== 'responded' || outcome.status >= 300) continue
    const { body } = outcome
    const revision = versionIn(body)
    if (revision > 0) known.push({ at: outcome.at, revision })
  }
  known.sort((a, b) => a.at - b.at || a.revision - b.revision)
  let highest = 0
  return known.map(({ at, revision }) => {
    highest = Math.max(highest, revision)
    return { at, revision: highest }
  })
}

function versionIn(body: unknown): number {
  if (typeof body !== 'object' || body === null || !('metadata' in body)) return 0
  const { metadata } = body
  if (typeof metadata !== 'object' || metadata === null || !('resourceVersion' in metadata)) return 0
  return Number(metadata.resourceVersion) || 0
}

function idOf(resource: string, namespace: string | undefined, name: string): string {
  return `${resource}/${namespace ?? ''}/${name}`
}

function sortKey({ namespace, name }: Commit): string {
  return `${namespace ?? ''}/${name}`
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
