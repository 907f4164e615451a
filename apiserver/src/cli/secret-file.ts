import { open, rename, rm, stat } from 'node:fs/promises'

/**
 * Replaces the content of a file that only its owner may read. If there is one that its group may read, and nobody
 * else, it stays so: somebody has made it for a reader in that group. A reader gets the old or the new content, also if
 * the process is killed meanwhile.
 */
export async function replaceSecretFile(path: string, text: string): Promise<void> {
  const next = `${path}.next`
  const group = await groupOf(path)
  // A killed process may have left it. `wx` does not follow a link that another user has put there.
  await rm(next, { force: true })
  const file = await open(next, 'wx', 0o600)
  try {
    if (group !== undefined) {
      const { uid, gid } = await file.stat()
      if (gid !== group) await file.chown(uid, group)
      await file.chmod(0o640)
    }
    await file.writeFile(text)
  } finally {
    await file.close()
  }
  await rename(next, path)
}

/** Returns the group that may read a file, if it is the only one besides the owner. */
async function groupOf(path: string): Promise<number | undefined> {
  try {
    const { mode, gid } = await stat(path)
    return (mode & 0o077) === 0o040 ? gid : undefined
  } catch {
    return undefined
  }
}
