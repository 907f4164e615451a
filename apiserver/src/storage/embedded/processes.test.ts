import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { open } from 'lmdb'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { StoreLockedError } from '../contract.ts'
import { openEmbeddedStorage, StoreFolderError } from './index.ts'

/** The built server, because Node 20 does not run TypeScript. */
const built = fileURLToPath(new URL('../../../dist/', import.meta.url))

let folder: string
let dataDir: string
const children: ChildProcess[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-embedded-'))
  dataDir = join(folder, 'data')
})
afterEach(async () => {
  for (const child of children.splice(0)) await kill(child)
  await rm(folder, { recursive: true })
})

describe('a data folder', () => {
  test('is created with its parents', async () => {
    const storage = await openEmbeddedStorage({ dataDir: join(dataDir, 'a', 'b') })
    await storage.close()
  })

  test('can be open once in a process', async () => {
    const storage = await openEmbeddedStorage({ dataDir })
    const second = openEmbeddedStorage({ dataDir: join(folder, 'other', '..', 'data') })
    await expect(second).rejects.toThrow(`${dataDir} is in use by process ${process.pid} on `)
    await expect(openEmbeddedStorage({ dataDir })).rejects.toBeInstanceOf(StoreLockedError)
    await expect(storage.head()).resolves.toEqual({ current: 0, written: 0 })
    await storage.close()
    await (await openEmbeddedStorage({ dataDir })).close()
  })

  test('can be open in one process at a time, and is free after that process is killed', async () => {
    const holder = start(writer)
    await line(holder)
    const refused = openEmbeddedStorage({ dataDir })
    await expect(refused).rejects.toBeInstanceOf(StoreLockedError)
    await expect(refused).rejects.toThrow(`${dataDir} is in use by process ${holder.pid} on `)
    await kill(holder)
    const storage = await openEmbeddedStorage({ dataDir })
    const late = start(writer)
    expect((await once(late, 'exit'))[0]).toBe(3)
    await storage.close()
  })

  test('opens in exactly one of several concurrent processes', async () => {
    const contenders = Array.from({ length: 4 }, () => start(writer))
    const results = await Promise.all(
      contenders.map(child =>
        Promise.race([line(child).then(() => 'open'), once(child, 'exit').then(([code]) => code)]),
      ),
    )
    expect(results.sort()).toEqual([3, 3, 3, 'open'])
  })

  test('that cannot be created or written is rejected, with its name in the message', async () => {
    await writeFile(dataDir, 'a file')
    await expect(openEmbeddedStorage({ dataDir })).rejects.toBeInstanceOf(StoreFolderError)
    await expect(openEmbeddedStorage({ dataDir: join(dataDir, 'sub') })).rejects.toThrow(
      /cannot create the data folder .*data.sub/,
    )
    await rm(dataDir)
    await mkdir(dataDir)
    await chmod(dataDir, 0o500)
    // Permissions do not apply to root.
    if (process.getuid?.() !== 0)
      await expect(openEmbeddedStorage({ dataDir })).rejects.toThrow(/cannot write to the data folder/)
    await chmod(dataDir, 0o700)
  })

  test('with another file in place of the store is rejected, and the file does not change', async () => {
    await mkdir(dataDir)
    const path = join(dataDir, 'store.mdb')
    for (const content of [Buffer.alloc(100_000, 'not a store'), Buffer.from('short')]) {
      await writeFile(path, content)
      const opened = openEmbeddedStorage({ dataDir })
      await expect(opened).rejects.toBeInstanceOf(StoreFolderError)
      await expect(opened).rejects.toThrow('choose another folder or, if it was one, restore a backup')
      expect((await readFile(path)).equals(content)).toBe(true)
    }
    await rm(path)
    const foreign = open({ path, noSubdir: true })
    await foreign.openDB({ name: 'theirs' }).put('a', 1)
    await foreign.close()
    await expect(openEmbeddedStorage({ dataDir })).rejects.toThrow(/is the database of another program/)
  })

  test('with a truncated store is rejected', async () => {
    const storage = await openEmbeddedStorage({ dataDir })
    const onSuccess = [{ type: 'put' as const, key: 'a', value: Buffer.alloc(100_000) }]
    for (let i = 0; i < 3; i++) await storage.transact({ compares: [], onSuccess })
    await storage.close()
    for (const bytes of [30_000, 5_000, 1_000]) {
      await truncate(join(dataDir, 'store.mdb'), bytes)
      await expect(openEmbeddedStorage({ dataDir })).rejects.toBeInstanceOf(StoreFolderError)
    }
  })

  test('that has lost its store is rejected, and one where a start was cut off gets one', async () => {
    await mkdir(dataDir)
    const path = join(dataDir, 'store.mdb')
    await writeFile(path, '')
    await (await openEmbeddedStorage({ dataDir })).close()
    for (const lose of [() => truncate(path, 0), () => rm(path), async () => {}]) {
      await lose()
      for (const create of [true, false]) {
        const opened = openEmbeddedStorage({ dataDir, create })
        await expect(opened).rejects.toBeInstanceOf(StoreFolderError)
        await expect(opened).rejects.toThrow(/is empty or was missing|has no store/)
      }
      expect(statSync(path).size).toBe(0)
    }
  })

  test('with a store whose pages were overwritten is rejected, with the remedy', async () => {
    await (await openEmbeddedStorage({ dataDir })).close()
    const path = join(dataDir, 'store.mdb')
    const bytes = await readFile(path)
    // Keeps the two meta pages, which name the roots of the trees. The first has the size of a page at 48.
    await writeFile(path, bytes.fill(0, 2 * bytes.readUInt32LE(48)))
    const opened = openEmbeddedStorage({ dataDir })
    await expect(opened).rejects.toBeInstanceOf(StoreFolderError)
    await expect(opened).rejects.toThrow(`${path} is damaged, restore a backup: MDB_`)
  })

  test('written by a newer version is rejected, and opens with that version', async () => {
    await (await openEmbeddedStorage({ dataDir })).close()
    await setFormat('{"store":"setpoint","version":2}')
    await expect(openEmbeddedStorage({ dataDir })).rejects.toThrow(/has format 2, written by a newer version/)
    await setFormat('{"store":"another","version":1}')
    await expect(openEmbeddedStorage({ dataDir })).rejects.toBeInstanceOf(StoreFolderError)
    await setFormat('{"store":"setpoint","version":1}')
    await (await openEmbeddedStorage({ dataDir })).close()
  })
})

describe('a store whose process is killed', () => {
  test('has every acknowledged transaction, no partial one, and a log without gaps', async () => {
    const acknowledged = new Map<number, string>()
    for (let round = 0; round < 3; round++) {
      const child = start(writer, `${round}`)
      let count = 0
      for await (const text of lines(child)) {
        const [revision, key, end] = text.split(' ')
        // The last line may be incomplete.
        if (revision === undefined || key === undefined || end !== '.') continue
        expect(acknowledged.has(Number(revision))).toBe(false)
        acknowledged.set(Number(revision), key)
        if (++count === 3_000) child.kill('SIGKILL')
      }
      const storage = await openEmbeddedStorage({ dataDir })
      const { current } = await storage.head()
      expect(current).toBeGreaterThanOrEqual(Math.max(...acknowledged.keys()))
      let next = 1
      for await (const batch of storage.watch('', {
        after: zeroRevision,
        signal: AbortSignal.timeout(120_000),
      })) {
        for (let i = 0; i < batch.changes.length; i += 2) {
          // Each transaction of the writer sets a key of its own and the shared counter to the same value.
          const [a, b] = batch.changes.slice(i, i + 2)
          expect([a?.revision, b?.revision]).toEqual([next, next])
          expect(a?.value?.equals(b?.value ?? Buffer.alloc(0))).toBe(true)
          const key = acknowledged.get(next)
          if (key !== undefined) expect([a?.key, b?.key]).toContain(key)
          next++
        }
        if (batch.revision === current) break
      }
      expect(next).toBe(current + 1)
      const first = await storage.transact({ compares: [], onSuccess: [] })
      expect(first.revision).toBe(current)
      expect((await storage.list('', { revision: toRevision(1) })).pairs).toHaveLength(2)
      await storage.close()
    }
  })
})

describe.skipIf(process.platform === 'win32')('a store whose disk is full', () => {
  test('rejects writes that grow the data, still reads and deletes, and has all revisions when reopened', async () => {
    // A limit on the file size simulates a full disk. The shell counts it in blocks of 512 or 1024 bytes.
    const child = start(filler, '--limit')
    const report: unknown = JSON.parse(await line(child))
    expect(report).toMatchObject({ error: 'StoreFullError', read: 100_000, deleted: true })
    await kill(child)
    const storage = await openEmbeddedStorage({ dataDir })
    const { current } = await storage.head()
    expect(report).toMatchObject({ current })
    const seen = new Set<number>()
    for await (const batch of storage.watch('', {
      after: zeroRevision,
      signal: AbortSignal.timeout(120_000),
    })) {
      for (const { revision } of batch.changes) seen.add(revision)
      if (batch.revision === current) break
    }
    expect(seen.size).toBe(current)
    await storage.close()
  })

  test('can be opened again, because that needs no more space', async () => {
    const used = () => readdirSync(dataDir).map(name => [name, statSync(join(dataDir, name)).blocks])
    await (await openEmbeddedStorage({ dataDir })).close()
    const first = used()
    for (let n = 0; n < 5; n++) await (await openEmbeddedStorage({ dataDir })).close()
    expect(used()).toEqual(first)
  })
})

// Child processes

/** Writes from 64 lanes until it is killed, and prints the revision and key of each acknowledged transaction. */
const writer = `
import { openEmbeddedStorage } from './storage/embedded/index.js'
const [dataDir, round = '0'] = process.argv.slice(1)
const storage = await openEmbeddedStorage({ dataDir }).catch(error => {
  process.stderr.write(error.message)
  process.exit(error.name === 'StoreLockedError' ? 3 : 4)
})
process.stdout.write('open\\n')
let count = 0
await Promise.all(Array.from({ length: 64 }, async () => {
  for (;;) {
    const key = 'k/' + round + '/' + count++
    const value = Buffer.from(key.repeat(1 + (count % 200)))
    const onSuccess = [{ type: 'put', key, value }, { type: 'put', key: 'counter', value }]
    const { revision } = await storage.transact({ compares: [], onSuccess })
    process.stdout.write(revision + ' ' + key + ' .\\n')
    if (process.stdout.writableLength > 100_000) await new Promise(resolve => process.stdout.once('drain', resolve))
  }
}))
`

/** Writes until the store is full, then reads and deletes a key, and prints the results. */
const filler = `
import { openEmbeddedStorage } from './storage/embedded/index.js'
const storage = await openEmbeddedStorage({ dataDir: process.argv[1] })
const value = Buffer.alloc(100_000, 'x')
const transact = operation => storage.transact({ compares: [], onSuccess: [operation] })
let count = 0
let error
while (error === undefined)
  await transact({ type: 'put', key: 'k' + count, value }).then(() => count++, reason => (error = reason.name))
const read = (await storage.get('k0')).pair.value.length
const deleted = (await transact({ type: 'delete', key: 'k0' })).succeeded
const { current } = await storage.head()
process.stdout.write(JSON.stringify({ error, read, deleted, current }) + '\\n')
`

function start(source: string, ...args: string[]): ChildProcess {
  const node = [process.execPath, '--input-type=module', '--eval', source, dataDir, ...args]
  const [command = '', ...rest] = args.includes('--limit')
    ? ['sh', '-c', 'ulimit -f 40000 && exec "$@"', 'sh', ...node]
    : node
  const child = spawn(command, rest, { cwd: built, stdio: ['ignore', 'pipe', 'ignore'] })
  children.push(child)
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

function lines(child: ChildProcess) {
  if (child.stdout === null) throw new Error('the child has no output')
  return createInterface({ input: child.stdout })
}

async function line(child: ChildProcess): Promise<string> {
  const [text] = await once(lines(child), 'line')
  return String(text)
}

async function setFormat(text: string): Promise<void> {
  const root = open<Buffer, Buffer>({
    path: join(dataDir, 'store.mdb'),
    noSubdir: true,
    encoding: 'binary',
    keyEncoding: 'binary',
  })
  await root
    .openDB({ name: 'meta', encoding: 'binary', keyEncoding: 'binary' })
    .put(Buffer.from('format'), Buffer.from(text))
  await root.close()
}
