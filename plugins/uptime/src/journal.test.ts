import { appendFile, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Journal, type JournalEntry, journalFolder } from './journal.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'uptime-journal-'))
})

afterEach(() => rm(folder, { recursive: true }))

/** A change at the n-th minute. */
function change(n: number, to: string): Omit<JournalEntry, 'from'> {
  const time = new Date(Date.UTC(2030, 0, 1, 0, n)).toISOString()
  return { time, probe: 'p', url: 'http://127.0.0.1/', to, message: 'HTTP 200' }
}

async function linesOf(file: string): Promise<unknown[]> {
  const text = await readFile(join(folder, file), 'utf8')
  return text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

test('changes are appended as JSON lines, each probe in its own file', async () => {
  const journal = new Journal(folder)
  await journal.note('uid-1', change(1, 'Up'))
  await journal.note('uid-2', change(1, 'Up'))
  await journal.note('uid-1', change(2, 'Down'))
  expect(await linesOf('uid-1.jsonl')).toEqual([
    { ...change(1, 'Up'), from: null },
    { ...change(2, 'Down'), from: 'Up' },
  ])
  expect(await linesOf('uid-2.jsonl')).toEqual([{ ...change(1, 'Up'), from: null }])
})

test('a change, or an older one, is not written again, also after a rotation', async () => {
  const journal = new Journal(folder, { fileBytes: 1 })
  for (const n of [1, 1, 2, 1, 2]) await journal.note('uid', change(n, 'Up'))
  expect(await linesOf('uid.old.jsonl')).toEqual([{ ...change(1, 'Up'), from: null }])
  expect(await linesOf('uid.jsonl')).toEqual([{ ...change(2, 'Up'), from: 'Up' }])
})

test('a line truncated by a full disk does not prevent the next', async () => {
  const journal = new Journal(folder)
  await journal.note('uid', change(1, 'Up'))
  await appendFile(join(folder, 'uid.jsonl'), '{"time":"2030')
  await journal.note('uid', change(2, 'Down'))
  const text = await readFile(join(folder, 'uid.jsonl'), 'utf8')
  expect(JSON.parse(text.trim().split('\n').at(-1) ?? '')).toEqual({ ...change(2, 'Down'), from: 'Up' })
})

test('the folder is created on demand, for this user only', async () => {
  const inner = join(folder, 'a', 'b')
  await new Journal(inner).note('uid', change(1, 'Up'))
  expect((await stat(inner)).mode & 0o777).toBe(0o700)
  expect((await stat(join(inner, 'uid.jsonl'))).mode & 0o777).toBe(0o600)
})

test('a probe that changes forever uses bounded disk space, and keeps the newest entries', async () => {
  const fileBytes = 1024
  const journal = new Journal(folder, { fileBytes })
  for (let count = 0; count < 200; count++) await journal.note('uid', change(count, String(count)))
  expect((await readdir(folder)).sort()).toEqual(['uid.jsonl', 'uid.old.jsonl'])
  for (const file of await readdir(folder)) {
    expect((await stat(join(folder, file))).size).toBeLessThan(2 * fileBytes)
  }
  expect((await linesOf('uid.jsonl')).at(-1)).toMatchObject({ from: '198', to: '199' })
})

test('remove deletes all files of one probe and none of others, and is idempotent', async () => {
  const journal = new Journal(folder, { fileBytes: 1 })
  for (const n of [1, 2]) await journal.note('uid-1', change(n, 'Up'))
  await journal.note('uid-2', change(1, 'Up'))
  await journal.remove('uid-1')
  await journal.remove('uid-1')
  expect(await readdir(folder)).toEqual(['uid-2.jsonl'])
})

test('a uid that would escape the folder is rejected', async () => {
  const journal = new Journal(join(folder, 'inner'))
  await expect(journal.note('../uid', change(1, 'Up'))).rejects.toThrow('not a uid')
  await expect(journal.remove('../uid')).rejects.toThrow('not a uid')
  expect(await readdir(folder)).toEqual([])
})

test('each user has a folder of their own, unless UPTIME_JOURNAL_DIR names one', () => {
  expect(journalFolder({}, 1000)).toBe(join(tmpdir(), 'setpoint-uptime-1000'))
  expect(journalFolder({}, 1001)).not.toBe(journalFolder({}, 1000))
  expect(journalFolder({ UPTIME_JOURNAL_DIR: '/srv/journal' })).toBe('/srv/journal')
})
