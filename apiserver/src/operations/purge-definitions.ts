import { objectsPrefix } from '../model/index.ts'
import { currentPages, type Storage } from '../storage/index.ts'

/**
 * Returns the names of the CustomResourceDefinitions of a group, whether they are served or not. @throws the store's
 * errors
 */
export async function definitionsOfGroup(
  storage: Storage,
  { group, signal }: { group: string; signal: AbortSignal },
): Promise<string[]> {
  const prefix = `${objectsPrefix}apiextensions.k8s.io/customresourcedefinitions/`
  const found: string[] = []
  for await (const pairs of currentPages(storage, prefix, { signal, keysOnly: true }))
    for (const { key } of pairs) {
      // `<plural>.<group>`
      const name = key.slice(prefix.length)
      if (name.slice(name.indexOf('.') + 1) === group) found.push(name)
    }
  return found
}
