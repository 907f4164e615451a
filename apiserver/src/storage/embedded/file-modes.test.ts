import { chmod, chown, mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { zeroRevision } from '@setpoint/controller-runtime/api'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restrictFiles } from './file-modes.ts'
import { openEmbeddedStorage, replaceEmbeddedStore } from './index.ts'

const files = ['holder.mdb', 'holder.mdb-lock', 'store.mdb', 'store.mdb-lock']

describe.skipIf(process.platform === 'win32')('the file modes of a data folder', () => {
  let folder: string
  let dataDir: string

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-modes-'))
    dataDir = join(folder, 'data')
  })
  afterEach(() => rm(folder, { recursive: true }))

  const modeOf = async (path: string) => (await stat(path)).mode & 0o777
  const modesOf = () => Promise.all(files.map(name => modeOf(join(dataDir, name))))

  it.each([0o000, 0o022, 0o777])('allow only the owner with umask %o', async umask => {
    const before = process.umask(umask)
    try {
      const storage = await openEmbeddedStorage({ dataDir })
      await storage.close()
    } finally {
      process.umask(before)
    }
    expect(await modeOf(dataDir)).toBe(0o700)
    expect(await modesOf()).toEqual(files.map(() => 0o600))
  })

  // Only root can give files away.
  if (process.getuid?.() === 0)
    it('leave it to the owner of its place, also if root writes it', async () => {
      const owner = 65_534
      await chown(folder, owner, owner)
      const ownersOf = () =>
        Promise.all(['', ...files].map(async name => (await stat(join(dataDir, name))).uid))
      const all = ['', ...files].map(() => owner)
      const restore = async () => {
        const replacement = await replaceEmbeddedStore(
          { dataDir },
          { above: zeroRevision, force: true, signal: AbortSignal.timeout(60_000) },
        )
        await replacement.complete()
        await replacement.close()
      }
      await restore()
      expect(await ownersOf()).toEqual(all)
      await (await openEmbeddedStorage({ dataDir, compact: true })).close()
      expect(await ownersOf()).toEqual(all)
      await restore()
      expect(await ownersOf()).toEqual(all)
    })

  it('are restricted for readable files of an earlier version, but not for the folder', async () => {
    await mkdir(dataDir)
    await (await openEmbeddedStorage({ dataDir })).close()
    await chmod(dataDir, 0o755)
    for (const name of files) await chmod(join(dataDir, name), 0o644)
    await (await openEmbeddedStorage({ dataDir })).close()
    expect(await modesOf()).toEqual(files.map(() => 0o600))
    expect(await modeOf(dataDir)).toBe(0o755)
  })

  it('are reported if they cannot be restricted', async () => {
    await (await openEmbeddedStorage({ dataDir })).close()
    await chmod(join(dataDir, 'store.mdb'), 0o644)
    const warned: object[] = []
    const log: Logger = { ...silentLogger, warn: fields => warned.push(fields) }
    const refused = () => {
      throw new Error('EPERM')
    }
    restrictFiles(dataDir, log, refused)
    restrictFiles(dataDir, log, () => {})
    expect(warned).toMatchObject([
      { path: join(dataDir, 'store.mdb') },
      { path: join(dataDir, 'store.mdb'), err: { message: 'the file system ignored the new mode' } },
    ])
  })
})
