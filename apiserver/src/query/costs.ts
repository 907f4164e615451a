/** Costs in microseconds, as measured on a store of 100,000 objects under load. Only their ratios matter. */
export const planCosts = Object.freeze({
  /** Taking the next object of an index. */
  taken: 0.2,
  /** Testing the next object by name: neighbours in the tree are mostly neighbours in memory. */
  scanned: 0.2,
  /** Testing the next object of a sort index. */
  walked: 0.35,
  /** Testing and keeping an object of a term. */
  gathered: 0.45,
  /** Finding the rank of a value and name, or what is at a rank. */
  search: 0.8,
  /** Comparing two objects in a sort. */
  compared: 0.3,
  /** Keeping a found object in a set, and finding it there. */
  kept: 0.2,
  /** A step along the sort index, without a test. */
  stepped: 0.1,
  /** A plan with a guessed cost may take this many times the cost of the next best plan. */
  patience: 2,
})

/** The cost of sorting so many objects. */
export function sortCost(size: number): number {
  return size * Math.log2(size + 1) * planCosts.compared
}
