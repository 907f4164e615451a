import type { KeyValue, ListOptions, Storage } from './contract.ts'

/**
 * Yields the pairs below a prefix, page by page. Each page shows the state when it is read, so a long walk needs no old
 * revision.
 */
export async function* currentPages(
  storage: Storage,
  prefix: string,
  options: Pick<ListOptions, 'limit' | 'signal' | 'keysOnly'>,
): AsyncGenerator<readonly KeyValue[], void> {
  let after: string | undefined
  do {
    const page = await storage.list(prefix, { ...options, after })
    yield page.pairs
    after = page.more ? page.pairs.at(-1)?.key : undefined
  } while (after !== undefined)
}
