import { first as beforeNames, type IndexTree } from '../../apiserver/src/cache/index-tree.ts'
import type { ModelSnapshot } from '../../apiserver/src/cache/model-snapshot.ts'

/** Returns the content of a snapshot: the pairs of all trees in order, and the ranks of every value. */
export function contentOf(snapshot: ModelSnapshot): unknown {
  const pairsOf = (tree: IndexTree) => {
    const pairs: unknown[] = []
    tree.forEachValue(slot => {
      const key = tree.keyAt(pairs.length)
      const ranks = [tree.rank(key, beforeNames), tree.rank(key, slot), tree.rank(key)]
      pairs.push([key, slot.name, snapshot.entryOf(slot), tree.get(key, slot)?.name, ...ranks])
    })
    return pairs
  }
  const objects: unknown[] = []
  snapshot.objects.forEachValue(entry => objects.push([snapshot.objects.keyAt(objects.length), entry]))
  return {
    objects,
    views: snapshot.views.map(({ values, smallest, largest }) => [values, smallest, largest].map(pairsOf)),
    labelKeys: pairsOf(snapshot.labelKeys),
  }
}
