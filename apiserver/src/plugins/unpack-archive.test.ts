import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { create } from 'tar'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { ArchiveError, archiveDefaults, checkArchive, unpackArchive } from './unpack-archive.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-archives-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const manifest = { 'package/package.json': '{"name":"demo"}' }

let count = 0
async function archive(
  files: Record<string, string>,
  options: { prefix?: string; link?: string; gzip?: boolean } = {},
): Promise<string> {
  const dir = join(root, `content-${++count}`)
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), text)
  }
  const names = await readdir(dir)
  if (options.link !== undefined) {
    await symlink(options.link, join(dir, 'package', 'link'))
  }
  const file = join(root, `archive-${count}.tgz`)
  const { prefix, gzip = true } = options
  await create({ file, cwd: dir, gzip, preservePaths: true, ...(prefix && { prefix }) }, names)
  return file
}

it('unpacks the content of package/, with nested folders', async () => {
  const file = await archive({ ...manifest, 'package/lib/a.js': 'a', 'package/node_modules/b/index.js': 'b' })
  const dir = join(root, 'unpacked')
  await unpackArchive(file, dir)
  expect((await readdir(dir)).sort()).toEqual(['lib', 'node_modules', 'package.json'])
  expect(await readFile(join(dir, 'node_modules/b/index.js'), 'utf8')).toBe('b')
})

it.each([
  ['a path out of the folder', { prefix: '../../out' }, 'leads out of the folder'],
  ['an absolute path', { prefix: '/out' }, 'leads out of the folder'],
  ['a symbolic link', { link: '/etc/passwd' }, 'is a SymbolicLink'],
])('refuses %s, and writes nothing', async (_, options, why) => {
  const file = await archive(manifest, options)
  const dir = join(root, `refused-${count}`)
  await expect(unpackArchive(file, dir)).rejects.toThrow(why)
  expect(await readdir(root)).not.toContain(`refused-${count}`)
})

it.each([
  ['no package.json', { 'package/index.js': '' }, archiveDefaults, 'has no package/package.json'],
  [
    'too many bytes',
    { ...manifest, 'package/a': 'x'.repeat(9_000) },
    { bytes: 5_000, entries: 9 },
    'unpacks to more than 5000 bytes',
  ],
  [
    'too many files',
    { ...manifest, 'package/a': '' },
    { ...archiveDefaults, entries: 2 },
    'more than 2 files',
  ],
])('refuses an archive with %s', async (_, files, bounds, why) => {
  const file = await archive(files)
  await expect(checkArchive(file, bounds)).rejects.toThrow(why)
})

it('refuses what is no archive, is cut off, or is missing', async () => {
  const text = join(root, 'text.tgz')
  await writeFile(text, 'no archive')
  const empty = join(root, 'empty.tgz')
  await writeFile(empty, '')
  const cut = join(root, 'cut.tgz')
  await writeFile(cut, (await readFile(await archive({ ...manifest, 'package/a': 'x' }))).subarray(0, 60))
  for (const file of [text, empty, cut, join(root, 'missing.tgz')])
    await expect(checkArchive(file), file).rejects.toThrow(ArchiveError)
})

it('copies no empty block after the end of an archive more than once', async () => {
  const blocks = Buffer.alloc(4 * 1024 * 1024)
  const padded = join(root, 'padded.tgz')
  const whole = gunzipSync(await readFile(await archive({ ...manifest, 'package/a': 'x' })))
  await writeFile(padded, gzipSync(Buffer.concat([whole, blocks]), { level: 1 }))
  const empty = join(root, 'empty-blocks.tgz')
  await writeFile(empty, gzipSync(blocks, { level: 1 }))
  const concat = vi.spyOn(Buffer, 'concat')
  await unpackArchive(padded, join(root, 'padded'))
  expect((await readdir(join(root, 'padded'))).sort()).toEqual(['a', 'package.json'])
  await expect(checkArchive(empty)).rejects.toThrow('Unrecognized archive format')
  const copied = concat.mock.results.reduce((sum, { value }) => sum + Number(value?.length ?? 0), 0)
  concat.mockRestore()
  expect(copied).toBeLessThan(blocks.length)
})

it('refuses an archive that unpacks to more than its files may have', async () => {
  const file = join(root, 'long.tgz')
  await writeFile(file, gzipSync(Buffer.alloc(100_000)))
  await expect(checkArchive(file, { bytes: 5_000, entries: 2 })).rejects.toThrow('it unpacks to more than')
})
