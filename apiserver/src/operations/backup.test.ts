import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gunzipSync, gzipSync } from 'node:zlib'
import { toRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import type { Storage } from '../storage/index.ts'
import { decodeEntry, encodeEntry } from './backup-format.ts'
import {
  BackupSeal,
  backupStream,
  type PrecedingBackup,
  readBackup,
  sealDefaults,
  unsealed,
} from './index.ts'

let dataDir: string
let storage: Storage

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-backup-'))
  storage = await openEmbeddedStorage({ dataDir, durable: false })
})
afterEach(async () => {
  await storage.close()
  await rm(dataDir, { recursive: true })
})

async function put(key: string, value: string): Promise<number> {
  const onSuccess = [{ type: 'put', key, value: Buffer.from(value) } as const]
  return (await storage.transact({ compares: [], onSuccess })).revision
}

const { signal } = new AbortController()

async function taken(since?: PrecedingBackup): Promise<Buffer> {
  return buffer(await backupStream(storage, { program: 'test', now: 0, since, signal }))
}

async function read(file: Buffer): Promise<{ keys: string[]; sha256: string; revision: number }> {
  const keys: string[] = []
  const { header, footer } = await readBackup(Readable.from([file]), ({ key, version, value }) => {
    keys.push(`${key}@${version}=${value?.toString() ?? 'deleted'}`)
  })
  return { keys, sha256: footer.sha256, revision: header.revision }
}

describe('a value', () => {
  const texts = [
    '{"a":1}',
    '{"spec.object":["x"],"object":["\\"},{"]}\n{"apiVersion":"v1","metadata":{"name":"a"}}',
    '{}\n{}',
    '[1.0, 2e3]',
    '"text"',
    'k8s:enc:aescbc:v1:key1:\n{}',
    '{}\n{}\n{}',
    '',
    '{"a":1',
    '{"\u2028":"\ud83d\ude00"}',
  ]
  test.each(texts)('comes back byte for byte: %j', text => {
    const value = Buffer.from(text)
    const line = encodeEntry({ key: 'objects/"a\\b"/ü', modRevision: toRevision(7), value })
    JSON.parse(line.toString())
    expect(line.indexOf('\n')).toBe(line.length - 1)
    const entry = decodeEntry(line.subarray(0, -1))
    expect(entry).toEqual({ key: 'objects/"a\\b"/ü', version: 7, value })
  })

  test('of any bytes comes back byte for byte', () => {
    const json = fc.json().map(text => Buffer.from(text))
    const parts = fc.array(fc.oneof(json, fc.uint8Array().map(Buffer.from)), { minLength: 1, maxLength: 3 })
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), parts, (key, lines) => {
        const value = Buffer.concat(
          lines.flatMap((line, at) => (at === 0 ? [line] : [Buffer.from('\n'), line])),
        )
        const line = encodeEntry({ key, modRevision: toRevision(1), value })
        JSON.parse(line.toString())
        expect(decodeEntry(line.subarray(0, -1))).toEqual({ key, version: 1, value })
      }),
    )
  })
})

test('a backup shows one version, also when its later pages are read after further writes', async () => {
  for (let n = 0; n < 1_500; n++) await put(`objects/x/things/${String(n).padStart(4, '0')}`, '{"old":true}')
  const stream = await backupStream(storage, { program: 'test', now: 0, signal })
  const chunks: Buffer[] = []
  for await (const chunk of stream) {
    if (chunks.length === 0) {
      for (let n = 1_000; n < 1_500; n++) await put(`objects/x/things/${n}`, '{"old":false}')
      await put('objects/x/things/zzz', '{}')
    }
    chunks.push(chunk)
  }
  const { keys, revision } = await read(Buffer.concat(chunks))
  expect(revision).toBe(1_500)
  expect(keys).toHaveLength(1_500)
  expect(keys.filter(line => !line.endsWith('={"old":true}'))).toEqual([])
})

test('the lease of a leader and the mark of the compactor are left out, the lease of a user is not', async () => {
  await put('compaction', '7')
  await put('objects/coordination.k8s.io/leases/setpoint-system/setpoint-controllers', '{}')
  await put('objects/coordination.k8s.io/leases/default/mine', '{}')
  const { keys } = await read(await taken())
  expect(keys).toEqual(['objects/coordination.k8s.io/leases/default/mine@3={}'])
})

test('an increment has the changes since its base, with deletions', async () => {
  await put('objects/x/a', '1')
  await put('objects/x/b', '1')
  const base = await read(await taken())
  await put('objects/x/a', '2')
  await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key: 'objects/x/b' }] })
  const since = { revision: toRevision(base.revision), sha256: base.sha256 }
  expect((await read(await taken(since))).keys).toEqual(['objects/x/a@3=2', 'objects/x/b@4=deleted'])
  await storage.compact(toRevision(4))
  await put('objects/x/a', '3')
  await expect(taken(since)).rejects.toThrow('no longer reaches back to version 2')
})

describe('a file that is not whole is refused:', () => {
  let file: Buffer
  let text: string
  beforeEach(async () => {
    for (let n = 0; n < 20; n++) await put(`objects/x/${n}`, `{"n":${n}}`)
    file = await taken()
    text = gunzipSync(file).toString()
  })
  const refused = (bytes: Buffer) => expect(read(bytes)).rejects

  test('cut at any place', async () => {
    for (let end = 0; end < file.length; end++)
      await refused(file.subarray(0, end)).toThrow(/it is (cut|not a backup)/)
  })

  test('cut between lines, and compressed again', async () => {
    const lines = text.split('\n')
    for (let end = 1; end < lines.length - 1; end++)
      await refused(gzipSync(`${lines.slice(0, end).join('\n')}\n`)).toThrow('it is cut')
  })

  test('with any bit changed', async () => {
    // The time and the system in gzip's header mean nothing.
    for (let at = 10; at < file.length; at++) {
      const changed = Buffer.from(file)
      changed[at] = (changed[at] ?? 0) ^ 1
      await refused(changed).toThrow(/^it is /)
    }
  })

  test('with a line changed, removed or added, and compressed again', async () => {
    await refused(gzipSync(text.replace('"n":7', '"n":8'))).toThrow('checksum')
    await refused(gzipSync(text.replace(/.*"n":7.*\n/, ''))).toThrow('checksum')
    await refused(gzipSync(`${text}{}\n`)).toThrow('lines follow')
  })

  test('with bytes after its end', async () => {
    for (const more of ['more', '\0'])
      await refused(Buffer.concat([file, Buffer.from(more)])).toThrow(/^it is /)
  })

  test('another file', async () => {
    await refused(Buffer.from('hello')).toThrow('it is not a backup of Setpoint')
    await refused(gzipSync('hello\n')).toThrow('it is not a backup of Setpoint')
    await refused(gzipSync(Buffer.alloc(20_000_000, 'x'))).toThrow('a line is too long')
  })

  test('of a newer format, by name', async () => {
    await refused(gzipSync(text.replace('"format":1', '"format":2'))).toThrow(
      'it has format 2, written by a newer version of Setpoint; this version reads formats up to 1',
    )
  })
})

describe('an encrypted file', () => {
  const key = Buffer.alloc(32, 1)
  const opened = (file: Buffer, withKey: Buffer | undefined = key) =>
    buffer(Readable.from(unsealed(Readable.from([file.subarray(0, 7), file.subarray(7)]), withKey)))
  const sealedFrom = (...parts: Buffer[]) => {
    const seal = new BackupSeal(key)
    return Buffer.concat([...parts.map(part => seal.add(part)), seal.end()])
  }
  const text = randomBytes(3 * sealDefaults.frameBytes)

  test.each([1, 100, sealDefaults.frameBytes, sealDefaults.frameBytes + 1, text.length])(
    'of %i bytes is opened with its key',
    async length => {
      const file = sealedFrom(text.subarray(0, 1), text.subarray(1, length))
      expect((await opened(file)).equals(text.subarray(0, length))).toBe(true)
    },
  )

  test('is refused with another key, without one, and if it is not encrypted', async () => {
    const file = sealedFrom(text)
    await expect(opened(file, Buffer.alloc(32, 2))).rejects.toThrow('it has another key')
    await expect(buffer(Readable.from(unsealed(Readable.from([file]), undefined)))).rejects.toThrow(
      'it is encrypted',
    )
    await expect(opened(text)).rejects.toThrow('it is not encrypted')
  })

  test('is refused if a frame is changed, cut off, moved or repeated', async () => {
    const file = sealedFrom(text)
    const start = file.length % (sealDefaults.frameBytes + 20)
    const frame = (n: number) =>
      file.subarray(
        start + n * (sealDefaults.frameBytes + 20),
        start + (n + 1) * (sealDefaults.frameBytes + 20),
      )
    const head = file.subarray(0, start)
    expect((await opened(Buffer.concat([head, frame(0), frame(1), frame(2)]))).equals(text)).toBe(true)
    for (const frames of [
      [0, 1],
      [1, 0, 2],
      [0, 0, 2],
      [0, 2],
      [0, 1, 2, 2],
    ])
      await expect(opened(Buffer.concat([head, ...frames.map(frame)]))).rejects.toThrow(
        /^it is (cut|damaged)|^it has another key/,
      )
    const changed = Buffer.from(file)
    changed[file.length - 40] = (changed[file.length - 40] ?? 0) ^ 1
    await expect(opened(changed)).rejects.toThrow('it was changed after it was encrypted')
  })
})
