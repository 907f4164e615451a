import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FolderWatch, isTest } from './folder-watch.ts'

let dir: string
let watch: FolderWatch | undefined
/** Everything that was reported. */
let reported: Set<string>
/** Called by each report, which lasts until it has resolved. */
let during: () => Promise<void>

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-watch-'))
  reported = new Set()
  during = async () => {}
})
afterEach(async () => {
  watch?.close()
  await rm(dir, { recursive: true, force: true })
})

async function open(): Promise<void> {
  watch = await FolderWatch.open({
    dir,
    output: join(dir, 'dist'),
    changed: paths => {
      for (const path of paths) reported.add(path)
      return during()
    },
    failed: error => expect.fail(String(error)),
  })
}

const write = (path: string) => writeFile(join(dir, path), '')
const becomes = (...paths: string[]) => expect.poll(() => [...reported].sort()).toEqual(paths.sort())

test('a changed, a new and a removed source file are reported, in subfolders too', async () => {
  await mkdir(join(dir, 'src/lib'), { recursive: true })
  await write('src/lib/changed.js')
  await write('src/lib/removed.js')
  await open()
  await write('src/lib/changed.js')
  await write('new.yaml')
  await rm(join(dir, 'src/lib/removed.js'))
  await becomes('src/lib/changed.js', 'src/lib/removed.js', 'new.yaml')
})

test('a changed test is reported and told from the files that the plugin loads', async () => {
  await open()
  await write('a.test.ts')
  await write('b.spec.js')
  await write('test.js')
  await becomes('a.test.ts', 'b.spec.js', 'test.js')
  expect([...reported].filter(isTest).sort()).toEqual(['a.test.ts', 'b.spec.js'])
})

test('a new folder is watched', async () => {
  await open()
  await mkdir(join(dir, 'new'))
  await write('marker.js')
  await becomes('marker.js')
  await write('new/a.js')
  await becomes('marker.js', 'new/a.js')
})

test('a folder that is moved here is reported if it has source files, and watched', async () => {
  await open()
  const elsewhere = await mkdtemp(join(tmpdir(), 'setpoint-watch-'))
  await writeFile(join(elsewhere, 'a.js'), '')
  await rename(elsewhere, join(dir, 'moved'))
  await becomes('moved')
  await write('moved/b.js')
  await becomes('moved', 'moved/b.js')
})

test('node_modules, hidden files, the output and files that are no source are ignored', async () => {
  for (const folder of ['node_modules/a', '.git', '.setpoint', 'dist', 'site', 'src'])
    await mkdir(join(dir, folder), { recursive: true })
  await open()
  for (const path of ['node_modules/a/a.js', '.git/a.json', '.setpoint/a.json', 'dist/a.js', '.a.js'])
    await write(path)
  for (const path of ['site/a.html', 'notes', 'a.js.swp']) await write(path)
  // Written after all the others.
  await write('src/a.js')
  await becomes('src/a.js')
})

test('changes during a report are reported after it', async () => {
  await open()
  let running = 0
  let finish = () => {}
  during = async () => {
    running++
    await new Promise<void>(resolve => {
      finish = resolve
    })
    running--
  }
  await write('a.js')
  await becomes('a.js')
  await write('b.js')
  await write('c.js')
  await expect
    .poll(() => {
      expect(running).toBeLessThanOrEqual(1)
      finish()
      return [...reported].sort()
    })
    .toEqual(['a.js', 'b.js', 'c.js'])
})

test('a change that is not reported yet is forgotten when it is closed', async () => {
  const clock = new FakeClock()
  const changed = () => expect.fail('reported')
  watch = await FolderWatch.open({ dir, changed, failed: error => expect.fail(String(error)), clock })
  await write('a.js')
  await expect.poll(() => clock.pendingTimers).toBe(1)
  watch.close()
  expect(clock.pendingTimers).toBe(0)
})
