import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Journal, type JournalEntry } from './journal.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'uptime-journal-'))
})

afterEach(() => rm(folder, { recursive: true }))

function entry(to: string): JournalEntry {
  return {
    time: '2030-01-01T00:00:00.000Z',
    probe: 'p',
    url: 'http://127.0.0.1/',
    from: null,
    to,
    message: 'HTTP 200',
  }
}

async function linesOf(file: string): Promise<unknown[]> {
  const text = await readFile(join(folder, file), 'utf8')
  return text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

test('entries are appended as JSON lines, each probe in a file of its own', async () => {
  const journal = new Journal(folder)
  await journal.append('uid-1', entry('Up'))
  await journal.append('uid-2', entry('Up'))
  await journal.append('uid-1', entry('Down'))
  expect(await linesOf('uid-1.jsonl')).toEqual([entry('Up'), entry('Down')])
  expect(await linesOf('uid-2.jsonl')).toEqual([entry('Up')])
})

test('the folder is made when it is needed, and is for this user only', async () => {
  const inner = join(folder, 'a', 'b')
  await new Journal(inner).append('uid', entry('Up'))
  expect((await stat(inner)).mode & 0o777).toBe(0o700)
  expect((await stat(join(inner, 'uid.jsonl'))).mode & 0o777).toBe(0o600)
})

test('a probe that changes for ever takes a bounded part of the disk, and keeps the newest', async () => {
  const fileBytes = 1024
  const journal = new Journal(folder, { fileBytes })
  for (let count = 0; count < 200; count++) await journal.append('uid', entry(String(count)))
  expect((await readdir(folder)).sort()).toEqual(['uid.jsonl', 'uid.old.jsonl'])
  for (const file of await readdir(folder)) {
    expect((await stat(join(folder, file))).size).toBeLessThan(2 * fileBytes)
  }
  expect((await linesOf('uid.jsonl')).at(-1)).toEqual(entry('199'))
})

test('removing takes everything of one probe and nothing of others, and may be done again', async () => {
  const journal = new Journal(folder, { fileBytes: 1 })
  for (const to of ['Up', 'Down']) await journal.append('uid-1', entry(to))
  await journal.append('uid-2', entry('Up'))
  await journal.remove('uid-1')
  await journal.remove('uid-1')
  expect(await readdir(folder)).toEqual(['uid-2.jsonl'])
})

test('a uid that would lead out of the folder is refused', async () => {
  const journal = new Journal(join(folder, 'inner'))
  await expect(journal.append('../uid', entry('Up'))).rejects.toThrow('not a uid')
  await expect(journal.remove('../uid')).rejects.toThrow('not a uid')
  expect(await readdir(folder)).toEqual([])
})
