import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectMeta, OwnerReference } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import { groupOf } from '../api/owners.ts'
import { propagationFinalizers } from '../api/propagation.ts'
import { compareVersions } from '../api/version.ts'

/** What is known of a referenced owner. All but `absent` count as possibly existing. */
export type Standing =
  /** A live read is pending; decisions wait for it. */
  | 'unchecked'
  /** Unknown: the kind is not served, not ready, or did not respond. */
  | 'unresolved'
  | 'present'
  /** It is deleting and waits until its dependents are gone. */
  | 'foreground'
  /** It is deleting and waits until its dependents have released it. */
  | 'orphaning'
  /** A live read has shown that it does not exist. Permanent unless the store is restored, since uids are never reused. */
  | 'absent'

/** How a deleting object waits for its dependents. */
export type Phase = 'foreground' | 'orphaning'

/** An owner as referenced: by kind, namespace, name and uid, of any version of the kind. */
export interface Owner {
  readonly key: string
  readonly group: string
  readonly kind: string
  /** The namespace of its dependents, if the kind is namespaced. */
  readonly namespace: string | undefined
  readonly name: string
  readonly uid: string
  standing: Standing
  /**
   * The version of its deletion, if its kind has reported it. That suffices once the kind is gone, because uids are never
   * reused. Dependents with a higher version may be those of a restored store, in which the owner is back.
   */
  deletedAt: string | undefined
  /** Number of requested checks; the result of an earlier check is stale. */
  asked: number
  /** The highest version of its dependents that was seen. */
  seen: string
  /** `seen` when the check began whose result the standing is, see `doubt`. */
  standingSince: string
  readonly dependents: Set<Node>
  /** Number of dependents that block its foreground deletion. */
  blocking: number
}

/** A reference of a dependent. */
interface Edge {
  readonly owner: Owner
  readonly blocking: boolean
}

/** An object that has owners or waits for its dependents. Other objects are not kept. */
export interface Node {
  /** `<group>/<plural>` */
  readonly resource: string
  readonly namespace: string | undefined
  readonly object: ObjectKey
  readonly uid: string
  /** The key in references to it. */
  readonly key: string
  /** The last one that was seen. */
  version: string
  edges: ReadonlyMap<string, Edge>
  phase: Phase | undefined
  /** The first version that was seen in the phase. */
  phaseSince: string
}

/** Work caused by a change of the graph. */
export class Work {
  /** Owners to read live. */
  readonly checks = new Set<Owner>()
  /** Dependents to decide on. */
  readonly syncs = new Set<Node>()
  /** Waiting objects that may be done. */
  readonly endings = new Set<Node>()
}

/** The identity of a kind in the graph. */
type GraphKind = Pick<Model, 'group' | 'kind' | 'plural' | 'scope'>

/**
 * The owner graph, limited to objects that have owners or wait. It makes no decisions and no requests; each change
 * returns the work that it causes.
 *
 *     Node (a dependent) ──Edge──> Owner (as referenced) ·····same key····· Node (if it waits)
 *
 * A reference has no namespace. The owner of a namespaced kind is in the namespace of the dependent, so one in another
 * namespace is absent, as in Kubernetes.
 *
 * Invariants: an owner is kept while it has dependents; `blocking` counts their blocking edges; `#waiting` holds the
 * nodes with a phase.
 */
export class Graph {
  readonly #nodes = new Map<string, Map<string, Node>>()
  readonly #owners = new Map<string, Owner>()
  readonly #waiting = new Map<string, Node>()
  readonly #isNamespaced: (group: string, kind: string) => boolean

  /** @param isNamespaced false also for a kind that is not served; see `revisit` */
  constructor(isNamespaced: (group: string, kind: string) => boolean = () => false) {
    this.#isNamespaced = isNamespaced
  }

  /** Number of nodes and owners. */
  get size(): { readonly nodes: number; readonly owners: number } {
    let nodes = 0
    for (const ofKind of this.#nodes.values()) nodes += ofKind.size
    return { nodes, owners: this.#owners.size }
  }

  node(resource: string, object: ObjectKey): Node | undefined {
    return this.#nodes.get(resource)?.get(object)
  }

  owner(key: string): Owner | undefined {
    return this.#owners.get(key)
  }

  /** Returns true if the object may affect the graph. */
  concerns(kind: GraphKind, { metadata }: ApiObject): boolean {
    return (
      (metadata.ownerReferences?.length ?? 0) > 0 ||
      phaseOf(metadata) !== undefined ||
      this.#owners.has(keyOf(kind, metadata)) ||
      this.#nodes.get(resourceOf(kind))?.has(objectKey(metadata)) === true
    )
  }

  /** Adds or updates an object. */
  apply(kind: GraphKind, { metadata }: ApiObject): Work {
    const work = new Work()
    const resource = resourceOf(kind)
    const { namespace, uid, version, ownerReferences = [] } = metadata
    const object = objectKey(metadata)
    const known = this.node(resource, object)
    if (known !== undefined && known.uid !== uid) this.#remove(known, work)
    const before = known?.uid === uid ? known : undefined
    const key = keyOf(kind, metadata)
    const phase = phaseOf(metadata)
    const owner = this.#owners.get(key)
    // An owner that was absent can exist again only if the store was restored.
    if (owner !== undefined && (phase !== before?.phase || owner.standing === 'absent')) {
      owner.deletedAt = undefined
      recheck(owner, work)
    }
    if (before === undefined && ownerReferences.length === 0 && phase === undefined) return work
    const node = before ?? {
      resource,
      namespace,
      object,
      uid,
      key,
      version,
      edges: new Map<string, Edge>(),
      phase: undefined,
      phaseSince: version,
    }
    node.version = version
    this.#link(node, ownerReferences, work)
    if (phase !== node.phase) {
      node.phase = phase
      node.phaseSince = version
      if (phase === undefined) this.#waiting.delete(key)
      else this.#waiting.set(key, node)
    }
    if (phase !== undefined) work.endings.add(node)
    if (node.edges.size === 0 && phase === undefined) {
      this.#nodes.get(resource)?.delete(object)
      return work
    }
    this.#keep(node)
    if (isLoose(node)) work.syncs.add(node)
    // A circle is detected from the owner's side.
    if (phase === 'foreground') {
      for (const waiting of this.#waitingFor(node)) work.endings.add(waiting)
    }
    return work
  }

  /** Removes a deleted object. */
  remove(kind: GraphKind, { metadata }: ApiObject): Work {
    const work = new Work()
    const key = keyOf(kind, metadata)
    const owner = this.#owners.get(key)
    if (owner !== undefined) owner.deletedAt = metadata.version
    const node = this.node(resourceOf(kind), objectKey(metadata))
    if (node !== undefined && node.uid === metadata.uid) this.#remove(node, work)
    else this.#left(key, work)
    return work
  }

  /** Removes the objects of a kind that are not in `keys`. */
  retain(kind: GraphKind, keys: ReadonlySet<string>): Work {
    const work = new Work()
    for (const node of [...(this.#nodes.get(resourceOf(kind))?.values() ?? [])]) {
      if (!keys.has(node.key)) this.#remove(node, work)
    }
    for (const owner of this.#owners.values()) {
      if (owner.group !== kind.group || owner.kind !== kind.kind) continue
      if (!keys.has(owner.key) || this.#waiting.has(owner.key)) recheck(owner, work)
      else if (owner.standing === 'unchecked' || owner.standing === 'unresolved') {
        // It exists, and its deletion will be reported.
        add(work, this.setStanding(owner, 'present'))
      }
    }
    return work
  }

  /** Requests another check of a kind's unresolved owners, when the kind is served. */
  revisit(kind: GraphKind): Work {
    const work = new Work()
    this.#locate(kind, work)
    for (const owner of this.#owners.values()) {
      if (owner.group === kind.group && owner.kind === kind.kind && owner.standing === 'unresolved')
        recheck(owner, work)
    }
    return work
  }

  /**
   * Requests another check of owners that do not keep a dependent by a check that is older than the dependent's version. In
   * a restored store every version is higher than before, and owners that were gone may be back.
   */
  doubt({ namespace, version, ownerReferences = [] }: ObjectMeta): Work {
    const work = new Work()
    for (const reference of ownerReferences) {
      const owner = this.#owners.get(this.keyOfReference(reference, namespace))
      if (owner === undefined || !isLooseStanding(owner.standing)) continue
      if (compareVersions(version, owner.standingSince) <= 0) continue
      see(owner, version)
      recheck(owner, work)
    }
    return work
  }

  /**
   * Records the result of a check. Dependents that can be decided on are due.
   * @param since `seen` when the check began
   */
  setStanding(owner: Owner, standing: Standing, since = owner.seen): Work {
    const work = new Work()
    owner.standing = standing
    owner.standingSince = since
    for (const node of owner.dependents) if (isLoose(node)) work.syncs.add(node)
    return work
  }

  /**
   * Returns the dependents that block this foreground deletion and, directly or indirectly, wait for this object
   * themselves.
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

  /** Yields the nodes in foreground deletion that this one blocks. */
  *#waitingFor(node: Node): Generator<Node, void> {
    for (const { owner, blocking } of node.edges.values()) {
      const waiting = blocking ? this.#waiting.get(owner.key) : undefined
      if (waiting?.phase === 'foreground') yield waiting
    }
  }

  /** Gives the owners of a namespaced kind their namespaces, which were unknown while the kind was not served. */
  #locate({ group, kind, scope }: GraphKind, work: Work): void {
    if (scope !== 'Namespaced') return
    const nodes = new Set<Node>()
    for (const owner of this.#owners.values()) {
      if (owner.group !== group || owner.kind !== kind || owner.namespace !== undefined) continue
      for (const node of owner.dependents) nodes.add(node)
    }
    for (const node of nodes) {
      const references = [...node.edges.values()].map(({ owner, blocking }) => ({
        apiVersion: owner.group === '' ? 'v1' : `${owner.group}/v1`,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        blockOwnerDeletion: blocking,
      }))
      this.#link(node, references, work)
    }
  }

  /** Returns the key of the owner that a dependent in a namespace references. */
  keyOfReference(reference: OwnerReference, namespace: string | undefined): string {
    const { apiVersion, kind, name, uid } = reference
    return keyOf(
      { group: groupOf(apiVersion), kind },
      { namespace: this.#namespaceOf(reference, namespace), name, uid },
    )
  }

  /** The namespace of a referenced owner. An owner that is known in one stays there when its kind is no longer served. */
  #namespaceOf(
    { apiVersion, kind, name, uid }: OwnerReference,
    namespace: string | undefined,
  ): string | undefined {
    const group = groupOf(apiVersion)
    const isThere =
      this.#isNamespaced(group, kind) || this.#owners.has(keyOf({ group, kind }, { namespace, name, uid }))
    return isThere ? namespace : undefined
  }

  #keep(node: Node): void {
    let ofKind = this.#nodes.get(node.resource)
    if (ofKind === undefined) {
      ofKind = new Map()
      this.#nodes.set(node.resource, ofKind)
    }
    ofKind.set(node.object, node)
  }

  #remove(node: Node, work: Work): void {
    this.#link(node, [], work)
    this.#waiting.delete(node.key)
    this.#nodes.get(node.resource)?.delete(node.object)
    work.endings.delete(node)
    work.syncs.delete(node)
    this.#left(node.key, work)
  }

  /** An object was reported as deleted. A live read verifies it before anything is done. */
  #left(key: string, work: Work): void {
    const owner = this.#owners.get(key)
    if (owner !== undefined) recheck(owner, work)
  }

  #link(node: Node, references: readonly OwnerReference[], work: Work): void {
    const edges = new Map<string, Edge>()
    for (const reference of references) {
      const blocking = reference.blockOwnerDeletion === true
      const key = this.keyOfReference(reference, node.namespace)
      const known = edges.get(key)
      if (known !== undefined && (known.blocking || !blocking)) continue
      edges.set(key, { owner: known?.owner ?? this.#ownerOf(key, reference, node.namespace, work), blocking })
    }
    const before = node.edges
    node.edges = edges
    for (const { owner, blocking } of edges.values()) {
      owner.dependents.add(node)
      see(owner, node.version)
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

  /** Returns true if dependents keep a waiting node from completing. */
  isHeld(node: Node): boolean {
    const owner = this.#owners.get(node.key)
    if (owner === undefined) return false
    return node.phase === 'foreground' ? owner.blocking > 0 : owner.dependents.size > 0
  }

  #ownerOf(key: string, reference: OwnerReference, namespace: string | undefined, work: Work): Owner {
    const known = this.#owners.get(key)
    if (known !== undefined) return known
    const { apiVersion, kind, name, uid } = reference
    const group = groupOf(apiVersion)
    const owner: Owner = {
      key,
      group,
      kind,
      namespace: this.#namespaceOf(reference, namespace),
      name,
      uid,
      standing: 'unchecked',
      deletedAt: undefined,
      asked: 1,
      seen: '0',
      standingSince: '0',
      dependents: new Set(),
      blocking: 0,
    }
    this.#owners.set(key, owner)
    work.checks.add(owner)
    return owner
  }
}

/** Returns how an object waits for its dependents. With both finalizers it is orphaning, which loses nothing. */
export function phaseOf({ deletionTimestamp, finalizers = [] }: ObjectMeta): Phase | undefined {
  if (deletionTimestamp === undefined) return undefined
  if (finalizers.includes(propagationFinalizers.Orphan)) return 'orphaning'
  return finalizers.includes(propagationFinalizers.Foreground) ? 'foreground' : undefined
}

/** Returns the key of an object, the same for all versions of its kind. Names contain no slash. */
export function keyOf(
  { group, kind }: Pick<Model, 'group' | 'kind'>,
  { namespace, name, uid }: { namespace?: string | undefined } & Pick<ObjectMeta, 'name' | 'uid'>,
): string {
  return `${group}/${kind}/${objectKey({ namespace, name })}/${uid}`
}

export function resourceOf({ group, plural }: Pick<Model, 'group' | 'plural'>): string {
  return `${group}/${plural}`
}

function see(owner: Owner, version: string): void {
  if (compareVersions(version, owner.seen) > 0) owner.seen = version
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

/** Returns true if a reference to an owner of that standing does not keep the dependent. */
export function isLooseStanding(standing: Standing): boolean {
  return standing === 'absent' || standing === 'foreground' || standing === 'orphaning'
}

function add(work: Work, more: Work): void {
  for (const owner of more.checks) work.checks.add(owner)
  for (const node of more.syncs) work.syncs.add(node)
  for (const node of more.endings) work.endings.add(node)
}
