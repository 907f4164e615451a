/**
 * Finds how a strategic merge treats a field of an object. Returns undefined for a field that the type does not have.
 */
export type MergeType = (field: string) => MergeField | undefined

/** Treatment of a field. */
export interface MergeField {
  /** Lists are replaced without `merge`, objects are merged without `replace`. */
  readonly strategy?: 'merge' | 'replace'
  /** Identifies the items of a merged list of objects. */
  readonly mergeKey?: string
  /** The type of the object, or of the list's items. */
  readonly type?: MergeType
}
