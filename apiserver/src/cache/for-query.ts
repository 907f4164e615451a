/** The narrow door for `query`: snapshots with their indexes, and orders. */
export { allByUnit, sorted } from './candidate-sort.ts'
export type { Cursor } from './counted-tree-view.ts'
export { type Entry, keyOfEntry, tieOf } from './entry.ts'
export { first, type IndexTree, type Slot } from './index-tree.ts'
export type { ListIndexSpec } from './list-index.ts'
export { listIndexDefaults } from './list-indexes.ts'
export type { ModelSnapshot } from './model-snapshot.ts'
export { type Candidate, type OrderView, type SortKey, SortOrder, sortValue } from './sort-order.ts'
