import { type FieldsV1, isRecord } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from '../../model/index.ts'
import { type PathElement, readElement } from './path-element.ts'

/**
 * A set of paths: Kubernetes' FieldsV1 as maps, because operations on large objects take ten times as long. In JSON:
 *
 *     {"f:spec": {"f:ports": {".": {}, "k:{\"name\":\"web\"}": {".": {}, "f:port": {}}}, "f:size": {}}}
 *
 * The value of an element is a node: the fields below it that are in the set, and `.` if the element itself is. A node
 * without fields below is empty; its element is in the set. A set as a whole has no `.`, and may be empty.
 * Sets are never changed: operations return new ones, which share parts with their arguments.
 *
 * Every operation is linear in the size of its arguments. The semantics are those of `fieldpath/set.go` of
 * structured-merge-diff.
 */
export interface FieldSet extends ReadonlyMap<PathElement, FieldSet> {}

/** A set or node that is being made. */
export type NewFieldSet = Map<PathElement, FieldSet>

/** The empty set, and the node of a field in the set without fields below. */
export const noFields: FieldSet = new Map()

const itself = '.'

/** Returns true if the element of this node is in the set. */
export function isOwned(node: FieldSet): boolean {
  return node.size === 0 || node.has(itself)
}

export function isEmpty(set: FieldSet): boolean {
  return set.size === 0
}

/** Returns true if a node has fields below its element. */
export function hasFieldsBelow(node: FieldSet): boolean {
  return node.size > (node.has(itself) ? 1 : 0)
}

/** Returns a node to add elements to. One that stays without elements must give way to `noFields` or undefined. */
export function startNode(owned: boolean): NewFieldSet {
  const node: NewFieldSet = new Map()
  if (owned) node.set(itself, noFields)
  return node
}

/** Returns the node of an element, or undefined if neither it nor a field below it is in the set. */
export function toNode(owned: boolean, below: FieldSet): FieldSet | undefined {
  if (below.size === 0) return owned ? noFields : undefined
  return owned ? withItself(below) : below
}

/** Returns the node with its element in the set. */
export function withItself(node: FieldSet = noFields): FieldSet {
  if (isOwned(node)) return node
  const owned = startNode(true)
  for (const [element, below] of node) owned.set(element, below)
  return owned
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0) return b
  let result: NewFieldSet | undefined
  for (const [element, node] of b) {
    if (element === itself) continue
    const other = a.get(element)
    const both = other === undefined ? node : unionOfNodes(other, node)
    if (both === other) continue
    result ??= new Map(a)
    result.set(element, both)
  }
  return result ?? a
}

/** Returns the union of two nodes of one element. */
export function unionOfNodes(a: FieldSet, b: FieldSet): FieldSet {
  if (a === b) return a
  const below = union(belowOf(a), belowOf(b))
  return toNode(isOwned(a) || isOwned(b), below) ?? noFields
}

/** Takes time for `a` only. */
export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return noFields
  let result: NewFieldSet | undefined
  for (const [element, node] of a) {
    const other = element === itself ? undefined : b.get(element)
    if (other === undefined) continue
    const both = toNode(isOwned(node) && isOwned(other), intersection(node, other))
    if (both === undefined) continue
    result ??= new Map()
    result.set(element, both)
  }
  return result ?? noFields
}

/**
 * Returns the paths of `a` that are not in `b`. A path stays if only a path below or above it is in `b`. Returns `a`
 * itself if nothing is taken from it.
 */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return a
  let result: NewFieldSet | undefined
  for (const [element, taken] of b) {
    const node = element === itself ? undefined : a.get(element)
    if (node === undefined) continue
    const isTaken = isOwned(taken)
    const rest = difference(node, taken)
    const isLost = isTaken && isOwned(node)
    if (rest === node && !isLost) continue
    const left = isTaken || !hasFieldsBelow(rest) ? toNode(isOwned(node) && !isTaken, belowOf(rest)) : rest
    result ??= new Map(a)
    if (left === undefined) result.delete(element)
    else result.set(element, left)
  }
  return result ?? a
}

/** Returns true if every path of `b` is in `a`. */
export function covers(a: FieldSet, b: FieldSet): boolean {
  for (const [element, wanted] of b) {
    if (element === itself) continue
    const node = a.get(element)
    if (node === undefined || (isOwned(wanted) && !isOwned(node)) || !covers(node, wanted)) return false
  }
  return true
}

/** Returns the fields below a node's element, as a set. */
function belowOf(node: FieldSet): FieldSet {
  if (!node.has(itself)) return node
  const below = new Map(node)
  below.delete(itself)
  return below
}

/** Yields the elements of a set or node with their nodes. */
export function* nodesOf(set: FieldSet): Generator<[element: PathElement, node: FieldSet]> {
  for (const entry of set) if (entry[0] !== itself) yield entry
}

/** Returns a set of paths of field names. */
export function setOfFields(...paths: readonly (readonly string[])[]): FieldSet {
  let set = noFields
  for (const path of paths) {
    let node = noFields
    for (const name of [...path].reverse()) node = new Map([[`f:${name}`, node]])
    set = union(set, node)
  }
  return set
}

/** Returns the first paths of the set, each before those below it. */
export function firstPaths(set: FieldSet, limit: number): (readonly PathElement[])[] {
  const found: (readonly PathElement[])[] = []
  const path: PathElement[] = []
  const visit = (at: FieldSet): void => {
    for (const [element, node] of nodesOf(at)) {
      if (found.length >= limit) return
      path.push(element)
      if (isOwned(node)) found.push([...path])
      visit(node)
      path.pop()
    }
  }
  visit(set)
  return found
}

/** Returns the number of paths in the set. */
export function sizeOf(set: FieldSet): number {
  let size = 0
  for (const [element, node] of set) if (element !== itself) size += Number(isOwned(node)) + sizeOf(node)
  return size
}

/** The JSON of sets that `decodeFields` has returned. */
const encoded = new WeakMap<FieldSet, FieldsV1>()

/** Returns a set that this module has encoded. */
export function decodeFields(fields: FieldsV1): FieldSet {
  const set = decodeNode(fields)
  encoded.set(set, fields)
  return set
}

function decodeNode(fields: FieldsV1): FieldSet {
  let node: NewFieldSet | undefined
  for (const element in fields) {
    const below = fields[element]
    if (below === undefined) continue
    node ??= new Map()
    node.set(element, decodeNode(below))
  }
  return node ?? noFields
}

/** Returns the JSON of a set, with its elements in one order: equal sets have the same text. */
export function encodeFields(set: FieldSet): FieldsV1 {
  return encoded.get(set) ?? encodeNode(set)
}

function encodeNode(node: FieldSet): FieldsV1 {
  const fields: Record<PathElement, FieldsV1> = {}
  for (const element of [...node.keys()].sort(compareCodePoints))
    fields[element] = encodeNode(node.get(element) ?? noFields)
  return fields
}

/**
 * Reads a FieldsV1 of a client, and returns it in the form of this module. The nesting must be bounded.
 * @throws PathElementError for an element that is malformed, TypeError for a value that is not an object
 */
export function readFieldSet(value: unknown): FieldSet {
  return belowOf(readNode(value))
}

function readNode(value: unknown): FieldSet {
  if (!isRecord(value)) throw new TypeError('the fields of a managed fields entry must be objects')
  const fields: NewFieldSet = new Map()
  for (const text in value) {
    const element = text === itself ? undefined : readElement(text)
    if (element === undefined) continue
    const node = readNode(value[text])
    const other = fields.get(element)
    fields.set(element, other === undefined ? node : unionOfNodes(other, node))
  }
  return toNode(Object.hasOwn(value, itself), fields) ?? noFields
}
