import { type BareObject, deepEqual } from '../model/index.ts'

/** The differences between an object and the stored one, by part. */
export interface Difference {
  readonly finalizers: boolean
  /** The rest of the metadata. */
  readonly metadata: boolean
  readonly status: boolean
  /** All other fields. */
  readonly content: boolean
}

/** Compares each part once, because comparing is costly for large objects. */
export function differenceOf(next: BareObject, previous: BareObject): Difference {
  const bodyOf = (object: BareObject) => ({ ...object, metadata: undefined, status: undefined })
  const restOf = ({ metadata }: BareObject) => ({ ...metadata, finalizers: undefined })
  return {
    finalizers: !deepEqual(next.metadata.finalizers, previous.metadata.finalizers),
    metadata: !deepEqual(restOf(next), restOf(previous)),
    status: !deepEqual(next.status, previous.status),
    content: !deepEqual(bodyOf(next), bodyOf(previous)),
  }
}

/** Returns true also if nothing differs. */
export function onlyTakesAwayFinalizers(
  next: BareObject,
  previous: BareObject,
  { metadata, status, content }: Difference,
): boolean {
  if (metadata || status || content) return false
  const before = new Set(previous.metadata.finalizers)
  return (next.metadata.finalizers ?? []).every(finalizer => before.has(finalizer))
}
