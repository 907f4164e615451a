import { open, rename, rm } from 'node:fs/promises'

/**
 * Replaces the content of a file that only its owner may read. A reader gets the old or the new content, also if the process
 * is killed meanwhile.
 */
export async function replaceSecretFile(path: string, text: string): Promise<void> {
  const next = `${path}.next`
  // A killed process may have left it. `wx` does not follow a link that another user has put there.
  await rm(next, { force: true })
  const file = await open(next, 'wx', 0o600)
  try {
    await file.writeFile(text)
  } finally {
    await file.close()
  }
  await rename(next, path)
}
