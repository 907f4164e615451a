/**
 * Returns a part of the items for which `fails` is still true, from which no piece can be left out (delta debugging).
 * Tries at most `tries` parts.
 */
export async function shrink<T>(
  items: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>,
  tries = 400,
): Promise<readonly T[]> {
  let rest = items
  let left = tries
  for (let size = Math.ceil(rest.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    let shrunk: boolean
    do {
      shrunk = false
      for (let from = 0; from < rest.length; ) {
        if (left-- <= 0) return rest
        const without = [...rest.slice(0, from), ...rest.slice(from + size)]
        if (await fails(without)) {
          rest = without
          shrunk = true
        } else from += size
      }
      // Once one piece is gone, an earlier one may be superfluous.
    } while (shrunk && size === 1)
  }
  return rest
}
