import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restrictFiles } from './file-modes.ts'
import { openEmbeddedStorage } from './index.ts'

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
