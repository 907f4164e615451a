import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectMeta, OwnerReference } from '../api/object.ts'
import { groupOf } from '../api/owners.ts'
import { propagationFinalizers } from '../api/propagation.ts'

/** What is known of the object that a reference means. All but `absent` count as: it may be there. */
export type Standing =
  /** A look at the server is due; decisions wait for it. */
  | 'unchecked'
  /** It could not be found out: the kind is not served, not ready, or did not answer. */
  | 'unresolved'
  | 'present'
  /** It is being deleted and waits until its dependents have gone. */
  | 'foreground'
  /** It is being deleted and waits until its dependents have let go of it. */
  | 'orphaning'
  /** A live read has shown that it does not exist. As uids never come back, this stays so. */
  | 'absent'

/** How a deleting object waits for its dependents. */
export type Phase = 'foreground' | 'orphaning'

/** An owner as references name it: by kind, name and uid, whichever version of the kind they say. */
export interface Owner {
  readonly key: string
  readonly group: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  standing: Standing
  /** How often a look at it was asked for: what an earlier one has shown does not count any more. */
  asked: number
  readonly dependents: Set<Node>
  /** How many of them its foreground deletion waits for. */
  blocking: number
}

/** A reference of a dependent. */
export interface Edge {
  readonly owner: Owner
  readonly blocking: boolean
}

/** An object that has owners, or that waits for its dependents. No other object is kept. */
export interface Node {
  /** `<group>/<plural>` */
  readonly resource: string
  readonly name: string
  readonly uid: string
  /** By which references name it. */
  readonly key: string
  edges: ReadonlyMap<string, Edge>
  phase: Phase | undefined
  /** The version at which the phase was first seen. */
  phaseSince: string
}

/** What a change of the graph makes due. */
export class Work {
  /** Owners to be looked at live. */
  readonly checks = new Set<Owner>()
  /** Dependents to be decided about. */
  readonly settlements = new Set<Node>()
  /** Waiting objects whose wait may be over. */
  readonly endings = new Set<Node>()
}

/** What identifies a kind in the graph, and what it is called there. */
export type GraphKind = Pick<Model, 'group' | 'kind' | 'plural'>

/**
 * Which object is owned by which, as far as the collector has to know: objects without owners that nobody waits for
 * cost nothing. It decides nothing and asks nobody; each change answers the work that it makes due.
 *
 *     Node (a dependent) ──Edge──> Owner (what a reference names) ·····same key····· Node (if it waits)
 *
 * Invariants: an owner is there as long as it has dependents; `blocking` counts their blocking edges; `#waiting` are
 * the nodes with a phase.
 */
export class Graph {
  readonly #nodes = new Map<string, Map<string, Node>>()
  readonly #owners = new Map<string, Owner>()
  readonly #waiting = new Map<string, Node>()

  /** Nodes and owners that are kept. */
  get size(): { readonly nodes: number; readonly owners: number } {
    let nodes = 0
    for (const ofKind of this.#nodes.values()) nodes += ofKind.size
    return { nodes, owners: this.#owners.size }
  }

  node(resource: string, name: string): Node | undefined {
    return this.#nodes.get(resource)?.get(name)
  }

  owner(key: string): Owner | undefined {
    return this.#owners.get(key)
  }

  /** Whether a change of the object can make a difference. */
  concerns(kind: GraphKind, { metadata }: ApiObject): boolean {
    return (
      (metadata.ownerReferences?.length ?? 0) > 0 ||
      phaseOf(metadata) !== undefined ||
      this.#owners.has(keyOf(kind, metadata)) ||
      this.#nodes.get(resourceOf(kind))?.has(metadata.name) === true
    )
  }

  /** Takes an object in as it is now. */
  apply(kind: GraphKind, { metadata }: ApiObject): Work {
    const work = new Work()
    const resource = resourceOf(kind)
    const { name, uid, version, ownerReferences = [] } = metadata
    const known = this.node(resource, name)
    if (known !== undefined && known.uid !== uid) this.#remove(known, work)
    const before = known?.uid === uid ? known : undefined
    const key = keyOf(kind, metadata)
    const phase = phaseOf(metadata)
    const owner = this.#owners.get(key)
    // An object whose absence has been seen is there: the sight was of a store that has been replaced since.
    if (owner !== undefined && (phase !== before?.phase || owner.standing === 'absent')) {
      recheck(owner, work)
    }
    if (before === undefined && ownerReferences.length === 0 && phase === undefined) return work
    const node = before ?? {
      resource,
      name,
      uid,
      key,
      edges: new Map<string, Edge>(),
      phase: undefined,
      phaseSince: version,
    }
    this.#link(node, ownerReferences, work)
    if (phase !== node.phase) {
      node.phase = phase
      node.phaseSince = version
      if (phase === undefined) this.#waiting.delete(key)
      else this.#waiting.set(key, node)
    }
    if (phase !== undefined) work.endings.add(node)
    if (node.edges.size === 0 && phase === undefined) {
      this.#nodes.get(resource)?.delete(name)
      return work
    }
    this.#keep(node)
    if (isLoose(node)) work.settlements.add(node)
    // Two that wait for each other are found from the owner's side.
    if (phase === 'foreground') {
      for (const waiting of this.#waitingFor(node)) work.endings.add(waiting)
    }
    return work
  }

  /** Takes an object out that has gone. */
  remove(kind: GraphKind, { metadata }: ApiObject): Work {
    const work = new Work()
    const node = this.node(resourceOf(kind), metadata.name)
    if (node !== undefined && node.uid === metadata.uid) this.#remove(node, work)
    else this.#left(keyOf(kind, metadata), work)
    return work
  }

  /** What is not among `keys` is not there any more, as far as the kind's objects are in the graph. */
  retain(kind: GraphKind, keys: ReadonlySet<string>): Work {
    const work = new Work()
    for (const node of [...(this.#nodes.get(resourceOf(kind))?.values() ?? [])]) {
      if (!keys.has(node.key)) this.#remove(node, work)
    }
    for (const owner of this.#owners.values()) {
      if (owner.group !== kind.group || owner.kind !== kind.kind) continue
      if (!keys.has(owner.key) || this.#waiting.has(owner.key)) recheck(owner, work)
      else if (owner.standing === 'unchecked' || owner.standing === 'unresolved') {
        // Seen, and its deletion will be told: no need to ask.
        add(work, this.settle(owner, 'present'))
      }
    }
    return work
  }

  /** The owners of a kind that could not be found out about are due again. */
  revisit(kind: GraphKind): Work {
    const work = new Work()
    for (const owner of this.#owners.values()) {
      if (owner.group === kind.group && owner.kind === kind.kind && owner.standing === 'unresolved')
        recheck(owner, work)
    }
    return work
  }

  /** Records what a look has shown. Dependents about which something can be decided now are due. */
  settle(owner: Owner, standing: Standing): Work {
    const work = new Work()
    owner.standing = standing
    for (const node of owner.dependents) if (isLoose(node)) work.settlements.add(node)
    return work
  }

  /**
   * The dependents that block a foreground deletion and themselves wait, through whomever, for the object's own end.
   * Empty where nobody waits in a circle.
   */
  circlesThrough(node: Node): Node[] {
    const above = new Set<Node>([node])
    for (const each of above) {
      for (const waiting of this.#waitingFor(each)) above.add(waiting)
    }
    const dependents = this.#owners.get(node.key)?.dependents ?? []
    return [...dependents].filter(
      dependent => above.has(dependent) && dependent.edges.get(node.key)?.blocking === true,
    )
  }

  /** The nodes in foreground deletion that this one blocks. */
  *#waitingFor(node: Node): Generator<Node, void> {
    for (const { owner, blocking } of node.edges.values()) {
      const waiting = blocking ? this.#waiting.get(owner.key) : undefined
      if (waiting?.phase === 'foreground') yield waiting
    }
  }

  #keep(node: Node): void {
    let ofKind = this.#nodes.get(node.resource)
    if (ofKind === undefined) {
      ofKind = new Map()
      this.#nodes.set(node.resource, ofKind)
    }
    ofKind.set(node.name, node)
  }

  #remove(node: Node, work: Work): void {
    this.#link(node, [], work)
    this.#waiting.delete(node.key)
    this.#nodes.get(node.resource)?.delete(node.name)
    work.endings.delete(node)
    work.settlements.delete(node)
    this.#left(node.key, work)
  }

  /** An object has gone, by what was told of it. Whether that is so is asked before anything is done. */
  #left(key: string, work: Work): void {
    const owner = this.#owners.get(key)
    if (owner !== undefined) recheck(owner, work)
  }

  #link(node: Node, references: readonly OwnerReference[], work: Work): void {
    const edges = new Map<string, Edge>()
    for (const reference of references) {
      const blocking = reference.blockOwnerDeletion === true
      const key = keyOfReference(reference)
      const twin = edges.get(key)
      if (twin !== undefined && (twin.blocking || !blocking)) continue
      edges.set(key, { owner: twin?.owner ?? this.#ownerOf(key, reference, work), blocking })
    }
    const before = node.edges
    node.edges = edges
    for (const { owner, blocking } of edges.values()) {
      owner.dependents.add(node)
      if (blocking) owner.blocking++
    }
    for (const [key, { owner, blocking }] of before) {
      if (blocking) owner.blocking--
      if (!edges.has(key)) owner.dependents.delete(node)
      if (owner.dependents.size === 0) this.#owners.delete(key)
      const waiting = this.#waiting.get(key)
      if (waiting !== undefined && !this.isHeld(waiting)) work.endings.add(waiting)
    }
  }

  /** Whether dependents keep a waiting node from its end. */
  isHeld(node: Node): boolean {
    const owner = this.#owners.get(node.key)
    if (owner === undefined) return false
    return node.phase === 'foreground' ? owner.blocking > 0 : owner.dependents.size > 0
  }

  #ownerOf(key: string, { apiVersion, kind, name, uid }: OwnerReference, work: Work): Owner {
    const known = this.#owners.get(key)
    if (known !== undefined) return known
    const owner: Owner = {
      key,
      group: groupOf(apiVersion),
      kind,
      name,
      uid,
      standing: 'unchecked',
      asked: 1,
      dependents: new Set(),
      blocking: 0,
    }
    this.#owners.set(key, owner)
    work.checks.add(owner)
    return owner
  }
}

/** How an object that has these metadata waits for its dependents. One that does both keeps them: that loses nothing. */
export function phaseOf({ deletionTimestamp, finalizers = [] }: ObjectMeta): Phase | undefined {
  if (deletionTimestamp === undefined) return undefined
  if (finalizers.includes(propagationFinalizers.Orphan)) return 'orphaning'
  return finalizers.includes(propagationFinalizers.Foreground) ? 'foreground' : undefined
}

/** What a reference means, whichever version of the kind it names. Names hold no slash. */
export function keyOfReference({ apiVersion, kind, name, uid }: OwnerReference): string {
  return `${groupOf(apiVersion)}/${kind}/${name}/${uid}`
}

export function keyOf({ group, kind }: GraphKind, { name, uid }: Pick<ObjectMeta, 'name' | 'uid'>): string {
  return `${group}/${kind}/${name}/${uid}`
}

export function resourceOf({ group, plural }: GraphKind): string {
  return `${group}/${plural}`
}

function recheck(owner: Owner, work: Work): void {
  owner.standing = 'unchecked'
  owner.asked++
  work.checks.add(owner)
}

function isLoose({ edges }: Node): boolean {
  for (const { owner } of edges.values()) if (isLooseStanding(owner.standing)) return true
  return false
}

/** Whether a reference to such an owner does not hold the dependent. */
export function isLooseStanding(standing: Standing): boolean {
  return standing === 'absent' || standing === 'foreground' || standing === 'orphaning'
}

function add(work: Work, more: Work): void {
  for (const owner of more.checks) work.checks.add(owner)
  for (const node of more.settlements) work.settlements.add(node)
  for (const node of more.endings) work.endings.add(node)
}
