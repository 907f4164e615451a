import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { AuditFile, fileDefaults } from './audit-file.ts'

let folder: string
let path: string
let clock: FakeClock
const unlimited = { bytes: Number.POSITIVE_INFINITY, backups: 0, ageMs: 0 }

beforeEach(async () => {
  clock = new FakeClock()
  folder = await mkdtemp(join(tmpdir(), 'setpoint-audit-'))
  path = join(folder, 'audit.log')
})
afterEach(async () => {
  vi.restoreAllMocks()
  await rm(folder, { recursive: true, force: true })
})

function open(limits: Partial<typeof unlimited> = {}, log: Logger = silentLogger): Promise<AuditFile> {
  return AuditFile.open({ path, limits: { ...unlimited, ...limits }, log, clock })
}

async function linesOf(file = path): Promise<string[]> {
  return (await readFile(file, 'utf8')).split('\n')
}

/** Makes the next write of any file end after some bytes, and the one after it fail, as on a full disk. */
async function failNextWrite(bytes: number): Promise<void> {
  const { open } = await import('node:fs/promises')
  const handle = await open(join(folder, 'other'), 'w')
  const prototype: { write(...args: unknown[]): Promise<unknown> } = Object.getPrototypeOf(handle)
  await handle.close()
  const { write } = prototype
  const spy = vi.spyOn(prototype, 'write')
  spy.mockImplementationOnce(function (this: unknown, ...args) {
    return write.call(this, args[0], 0, bytes)
  })
  spy.mockRejectedValueOnce(new Error('ENOSPC: no space left on device, write'))
}

it('appends one line for each event, readable by its owner only', async () => {
  const first = await open()
  first.write('{"a":1}')
  first.write('{"a":2}')
  await first.close()
  const second = await open()
  second.write('{"a":3}')
  await second.close()
  expect(await linesOf()).toEqual(['{"a":1}', '{"a":2}', '{"a":3}', ''])
  expect((await stat(path)).mode & 0o777).toBe(0o600)
})

it('begins a new line after one that a crash cut off', async () => {
  await writeFile(path, '{"a":1}\n{"a"')
  const file = await open()
  file.write('{"a":2}')
  file.write('{"a":3}')
  await file.close()
  expect(await linesOf()).toEqual(['{"a":1}', '{"a"', '{"a":2}', '{"a":3}', ''])
  expect(file.dropped).toBe(0)
})

it('counts the events that a full disk loses, logs once a minute, and goes on', async () => {
  const error = vi.fn()
  const file = await open({}, { ...silentLogger, error })
  // Ends within the second line.
  await failNextWrite(10)
  for (const event of ['{"a":1}', '{"a":2}', '{"a":3}']) file.write(event)
  await clock.advance(fileDefaults.delayMs)
  await expect.poll(() => file.dropped).toBe(2)
  await failNextWrite(1)
  file.write('{"a":4}')
  await clock.advance(fileDefaults.delayMs)
  await expect.poll(() => file.dropped).toBe(3)
  expect(error).toHaveBeenCalledTimes(1)
  file.write('{"a":5}')
  await file.close()
  expect(await linesOf()).toEqual(['{"a":1}', '{"', '{"a":5}', ''])
})

it('drops and counts what does not fit into its buffer, and never blocks', async () => {
  const file = await open()
  const event = 'x'.repeat(1024 * 1024 - 1)
  const fitting = fileDefaults.bufferLength / (event.length + 1)
  for (let at = 0; at < fitting + 5; at++) file.write(event)
  expect(file.dropped).toBe(5)
  await file.close()
  expect((await linesOf()).map(line => line.length)).toEqual([...Array(fitting).fill(event.length), 0])
})

it('joins the events of some milliseconds in one write', async () => {
  const { open: openFile } = await import('node:fs/promises')
  const handle = await openFile(join(folder, 'other'), 'w')
  const write = vi.spyOn(Object.getPrototypeOf(handle), 'write')
  await handle.close()
  const file = await open()
  for (let at = 0; at < 100; at++) file.write(`${at}`)
  await clock.advance(fileDefaults.delayMs - 1)
  expect(write).not.toHaveBeenCalled()
  await clock.advance(1)
  await expect.poll(async () => (await linesOf()).length).toBe(101)
  expect(write).toHaveBeenCalledTimes(1)
  await file.close()
})

it('rotates at its size, and keeps the newest files', async () => {
  const file = await open({ bytes: 20, backups: 2 })
  for (let at = 0; at < 5; at++) {
    file.write(`{"event":${at}}`)
    await clock.advance(fileDefaults.delayMs)
    await expect.poll(async () => (await linesOf())[0]).toBe(`{"event":${at}}`)
    await clock.advance(1_000 - fileDefaults.delayMs)
  }
  await file.close()
  const names = (await readdir(folder)).sort()
  expect(names).toHaveLength(3)
  expect(names.slice(0, 2).join()).toMatch(/^(audit-2030-01-01T00-00-\d\d\.020\.log,?){2}$/)
  const contents = await Promise.all(names.map(name => linesOf(join(folder, name))))
  expect(contents).toEqual([
    ['{"event":2}', ''],
    ['{"event":3}', ''],
    ['{"event":4}', ''],
  ])
})

it('never replaces a rotated file, also within a millisecond', async () => {
  vi.spyOn(clock, 'now').mockReturnValue(clock.now())
  const file = await open({ bytes: 1 })
  for (let at = 0; at < 4; at++) {
    file.write(`${at}`)
    await clock.advance(fileDefaults.delayMs)
    await expect.poll(async () => (await linesOf())[0]).toBe(`${at}`)
  }
  await file.close()
  expect(await readdir(folder)).toHaveLength(4)
})

it('removes rotated files past their age, and no other file', async () => {
  const old = new Date(clock.now() - 3 * 86_400_000).toISOString().slice(0, -1).replaceAll(':', '-')
  const recent = new Date(clock.now() - 86_400_000).toISOString().slice(0, -1).replaceAll(':', '-')
  const others = ['audit-notes.log', `other-${old}.log`, `audit-${old}.log.gz`]
  for (const name of [`audit-${old}.log`, `audit-${recent}.log`, ...others])
    await writeFile(join(folder, name), '')
  const file = await open({ ageMs: 2 * 86_400_000 })
  await file.close()
  expect((await readdir(folder)).sort()).toEqual([`audit-${recent}.log`, 'audit.log', ...others].sort())
})

it('writes again once a folder that was moved away is back', async () => {
  const file = await open({ bytes: 1 })
  file.write('1')
  await clock.advance(fileDefaults.delayMs)
  await expect.poll(() => linesOf()).toEqual(['1', ''])
  await rename(folder, `${folder}-moved`)
  file.write('2')
  await clock.advance(fileDefaults.delayMs)
  await expect.poll(() => file.dropped).toBe(1)
  await rename(`${folder}-moved`, folder)
  file.write('3')
  await file.close()
  expect((await linesOf()).at(-2)).toBe('3')
})

it('refuses what is not a regular file or cannot be created', async () => {
  await mkdir(path)
  await expect(open()).rejects.toThrow('it is not a regular file')
  path = join(folder, 'missing', 'audit.log')
  await expect(open()).rejects.toThrow(/cannot open the audit log .*ENOENT/)
})
