import { type FieldsV1, isRecord } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from '../../model/index.ts'
import { type PathElement, readElement } from './path-element.ts'

/**
 * A set of paths, in the form of Kubernetes' FieldsV1, so that stored sets need no decoding:
 *
 *     {"f:spec": {"f:ports": {".": {}, "k:{\"name\":\"web\"}": {".": {}, "f:port": {}}}, "f:size": {}}}
 *
 * The value of an element is a node: the fields below it that are in the set, and `.` if the element itself is. A node
 * without fields below is `{}`; its element is in the set. A set as a whole has no `.`, and `{}` is the empty set.
 * Sets are never changed: operations return new ones, which share parts with their arguments.
 *
 * Every operation is linear in the size of its arguments, a difference in that of its second. The semantics are those
 * of `fieldpath/set.go` of structured-merge-diff.
 */
export type FieldSet = FieldsV1

/** The empty set, and the node of a field in the set without fields below. */
export const noFields: FieldSet = Object.freeze({})

const itself = '.'

/** Returns true if the element of this node is in the set. */
export function isOwned(node: FieldSet): boolean {
  return isEmpty(node) || node[itself] !== undefined
}

export function isEmpty(set: FieldSet): boolean {
  for (const _element in set) return false
  return true
}

/** Returns true if a node has fields below its element. */
export function hasFieldsBelow(node: FieldSet): boolean {
  for (const element in node) if (element !== itself) return true
  return false
}

/** Returns the node of an element, or undefined if neither it nor a field below it is in the set. */
export function toNode(owned: boolean, below: FieldSet): FieldSet | undefined {
  if (isEmpty(below)) return owned ? noFields : undefined
  return owned ? { [itself]: noFields, ...below } : below
}

/** Returns the node with its element in the set. */
export function withItself(node: FieldSet = noFields): FieldSet {
  return isOwned(node) ? node : { [itself]: noFields, ...node }
}

/** Yields the elements of a set or node with their nodes. */
export function* nodesOf(set: FieldSet): Generator<[element: PathElement, node: FieldSet]> {
  for (const element in set) {
    const node = set[element]
    if (element !== itself && node !== undefined) yield [element, node]
  }
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (isEmpty(a)) return b
  if (isEmpty(b)) return a
  const result: Record<PathElement, FieldSet> = {}
  for (const [element, node] of nodesOf(a)) result[element] = node
  for (const [element, node] of nodesOf(b)) {
    const other = result[element]
    result[element] = other === undefined ? node : unionOfNodes(other, node)
  }
  return result
}

/** Returns the union of two nodes of one element. */
export function unionOfNodes(a: FieldSet, b: FieldSet): FieldSet {
  const below = union(belowOf(a), belowOf(b))
  return toNode(isOwned(a) || isOwned(b), below) ?? noFields
}

/** Takes time for `a` only. */
export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  const result: Record<PathElement, FieldSet> = {}
  for (const [element, node] of nodesOf(a)) {
    const other = b[element]
    if (other === undefined) continue
    const both = toNode(isOwned(node) && isOwned(other), intersection(node, other))
    if (both !== undefined) result[element] = both
  }
  return result
}

/**
 * Returns the paths of `a` that are not in `b`. A path stays if only a path below or above it is in `b`. Returns `a` itself
 * if nothing is taken from it.
 */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  let result: Record<PathElement, FieldSet> | undefined
  for (const [element, taken] of nodesOf(b)) {
    const node = a[element]
    if (node === undefined) continue
    const isTaken = isOwned(taken)
    const rest = difference(node, taken)
    const isLost = isTaken && isOwned(node)
    if (rest === node && !isLost) continue
    const left = toNode(isOwned(node) && !isTaken, belowOf(rest))
    result ??= { ...a }
    if (left === undefined) delete result[element]
    else result[element] = left
  }
  return result ?? a
}

/** Returns true if every path of `b` is in `a`. */
export function covers(a: FieldSet, b: FieldSet): boolean {
  for (const element in b) {
    const [wanted, node] = [b[element], a[element]]
    if (element === itself || wanted === undefined) continue
    if (node === undefined || (isOwned(wanted) && !isOwned(node)) || !covers(node, wanted)) return false
  }
  return true
}

/** Returns the fields below a node's element, as a set. */
function belowOf(node: FieldSet): FieldSet {
  if (node[itself] === undefined) return node
  const { [itself]: _itself, ...below } = node
  return below
}

/** Returns a set of paths of field names. */
export function setOfFields(...paths: readonly (readonly string[])[]): FieldSet {
  let set = noFields
  for (const path of paths) {
    let node = noFields
    for (const name of [...path].reverse()) node = { [`f:${name}`]: node }
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
  for (const [, node] of nodesOf(set)) size += Number(isOwned(node)) + sizeOf(node)
  return size
}

/** Returns the set with its elements in one order, so that equal sets have the same JSON. */
export function inOrder(set: FieldSet): FieldSet {
  const elements = Object.keys(set)
  if (elements.length === 0) return noFields
  const result: Record<PathElement, FieldSet> = {}
  for (const element of elements.sort(compareCodePoints)) {
    const node = set[element]
    if (node !== undefined) result[element] = inOrder(node)
  }
  return result
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
  const fields: Record<PathElement, FieldSet> = {}
  for (const [text, below] of Object.entries(value)) {
    const element = text === itself ? undefined : readElement(text)
    if (element === undefined) continue
    const node = readNode(below)
    const other = fields[element]
    fields[element] = other === undefined ? node : unionOfNodes(other, node)
  }
  return toNode(Object.hasOwn(value, itself), fields) ?? noFields
}
