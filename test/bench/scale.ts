import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGzip } from 'node:zlib'
import { Inspected, residentBytes, restingMemory } from '../support/inspector.ts'
import { collection } from './items.ts'
import { monotonicMs, percentile } from './percentile.ts'
import { type Program, runSetpoint, startSetpoint } from './program.ts'
import { RawConnection, rawRequest, withToken } from './raw-http.ts'
import { ScriptProcess } from './script-process.ts'

const objects = 1_000_000
const objectBytes = 1024
const watchers = 10_000
/** Two, because one user may have only half of the connections that the process has descriptors for. */
const users = ['one', 'two'] as const
/** Changes while the watchers watch. Each is delivered to all of them. */
const changes = 300
const changesPerSecond = 2
const mebibyte = 1024 * 1024

/**
 * A server at the size that the documentation promises: 1,000,000 objects of 1 KiB with three indexes on the embedded
 * store, and 10,000 watchers of all of them. Prints memory, the time of a start, and the delays of deliveries and of
 * GETs while changes are delivered. It takes some ten minutes and 4 GiB, so it runs only when it is named.
 */
export async function scale(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
  const dataDir = join(folder, 'data')
  try {
    const tokens = join(folder, 'tokens')
    await writeFile(tokens, JSON.stringify(users.map(entryOf)), { mode: 0o600 })
    const backup = join(folder, 'objects.backup')
    const bytes = await writeBackup(backup)
    const restoring = performance.now()
    await runSetpoint(['restore', backup, '--data-dir', dataDir])
    print('restore', `${seconds(performance.now() - restoring)}`)
    const starting = performance.now()
    const inspected = await Inspected.reserve()
    await using setpoint = await startSetpoint(['--data-dir', dataDir, '--token-file', tokens], {
      // Less than Node's default on a large machine: the figures should hold in a container.
      nodeOptions: ['--max-old-space-size=3000', ...inspected.nodeOptions],
    })
    while (!(await fetch(new URL('/readyz', setpoint.url))).ok) await sleep(200)
    print('start to ready', `${seconds(performance.now() - starting)}`)
    print('anonymous memory when ready', mib(await residentBytes(setpoint.pid)))
    const { heap, resident } = await restingMemory(setpoint.pid, inspected)
    const share = (resident / bytes).toFixed(2)
    print(
      'after a collection',
      `${mib(resident)}, of which heap ${mib(heap)}: ${share} times the bytes of the objects`,
    )
    await watched(setpoint)
    const end = await restingMemory(setpoint.pid, inspected)
    print('after them', mib(end.resident))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function watched(setpoint: Program): Promise<void> {
  // Two processes of clients, so that they are no slower than the server.
  const fleets = users.map(user => ({ user, process: new ScriptProcess('fleet.js') }))
  const each = watchers / fleets.length
  const version = await versionOf(setpoint.url)
  const path = `${collection}?version=${version}&allowWatchBookmarks=false`
  const connecting = performance.now()
  await Promise.all(
    fleets.map(({ process, user }) => process.ask('connect', each, setpoint.url.href, path, user)),
  )
  print(`${watchers} watchers connect`, seconds(performance.now() - connecting))
  print('anonymous memory with them', mib(await residentBytes(setpoint.pid)))
  const received = Promise.all(fleets.map(({ process }) => process.ask('receive', changes * each)))
  const stop = new AbortController()
  const gets = timesOfGets(setpoint.url, stop.signal)
  const writer = await RawConnection.open(setpoint.url)
  const begin = performance.now()
  let most = 0
  for (let n = 0; n < changes; n++) {
    await sleep(Math.max(0, begin + (n * 1000) / changesPerSecond - performance.now()))
    const name = nameOf((n * 7919) % objects)
    const body = JSON.stringify({ spec: { sentAt: String(monotonicMs()) } })
    const patch = rawRequest(
      'PATCH',
      setpoint.url,
      `${collection}/${name}`,
      body,
      'application/merge-patch+json',
    )
    const { status } = await writer.send(withToken(users[0], patch))
    if (status !== 200) throw new Error(`status ${status} of a patch`)
    if (n % 20 === 0) most = Math.max(most, await residentBytes(setpoint.pid))
  }
  await received
  stop.abort()
  const perSecond = Math.round((changes * watchers) / ((performance.now() - begin) / 1000))
  print('deliveries', `${changes * watchers}, ${perSecond} a second, anonymous memory up to ${mib(most)}`)
  for (const { process } of fleets) {
    const [middle, late] = (await process.ask('delays')).split(' ')
    print('from the sending of a write to its receipt', `median ${ms(middle)}, p99 ${ms(late)}`)
  }
  const times = Float64Array.from(await gets).sort()
  print(
    'GET of one object meanwhile',
    `median ${ms(percentile(times, 0.5))}, p99 ${ms(percentile(times, 0.99))}`,
  )
  writer.close()
  for (const { process } of fleets) {
    await process.ask('close')
    await process[Symbol.asyncDispose]()
  }
}

/** Asks for one object after another, twenty a second. Returns the milliseconds of each. */
async function timesOfGets(url: URL, signal: AbortSignal): Promise<number[]> {
  const connection = await RawConnection.open(url)
  const times: number[] = []
  for (let n = 0; !signal.aborted; n++) {
    const begin = performance.now()
    const { status } = await connection.send(
      withToken(users[0], rawRequest('GET', url, `${collection}/${nameOf((n * 104_729) % objects)}`)),
    )
    if (status !== 200) throw new Error(`status ${status} of a GET`)
    times.push(performance.now() - begin)
    await sleep(50)
  }
  connection.close()
  return times
}

/** Writes a backup with the objects, which is faster than to create them. Returns the bytes of all objects. */
async function writeBackup(path: string): Promise<number> {
  const zip = createGzip({ level: 1 })
  const file = zip.pipe(createWriteStream(path))
  const hash = createHash('sha256')
  const write = async (line: string) => {
    hash.update(line)
    if (!zip.write(line)) await once(zip, 'drain')
  }
  const head = { setpoint: 'backup', format: 1, kind: 'full', revision: objects + 1 }
  await write(
    `${JSON.stringify({ ...head, takenAt: '2026-01-01T00:00:00Z', program: 'bench', storeBytes: 0 })}\n`,
  )
  let bytes = 0
  for (let n = 0; n < objects; n++) {
    const object = {
      apiVersion: 'bench.example.com/v1',
      kind: 'Item',
      metadata: {
        name: nameOf(n),
        uid: randomUUID(),
        generation: 1,
        creationTimestamp: '2026-01-01T00:00:00Z',
      },
      spec: { n, tags: [`t${n % 1000}`], text: '' },
    }
    object.spec.text = 'x'.repeat(objectBytes - JSON.stringify(object).length)
    const json = JSON.stringify(object)
    bytes += json.length
    const key = `objects/bench.example.com/items/${nameOf(n)}`
    await write(`{"key":"${key}","version":${n + 1},"reservations":{},"object":${json}}\n`)
  }
  const end = { end: true, entries: objects, objects, deletions: 0, sha256: hash.digest('hex') }
  zip.end(`${JSON.stringify(end)}\n`)
  await once(file, 'finish')
  return bytes
}

/** The entry of a user in a token file. The token is the user's name. */
const entryOf = (user: string) => ({
  ...{ user, groups: ['setpoint:admins'], sha256: createHash('sha256').update(user).digest('hex') },
})

const nameOf = (n: number) => `i${String(n).padStart(7, '0')}`

async function versionOf(url: URL): Promise<string> {
  const list = await (
    await fetch(new URL(`${collection}?size=1`, url), { headers: { authorization: `Bearer ${users[0]}` } })
  ).text()
  return /"version":"(\d+)"/.exec(list)?.[1] ?? ''
}

function print(what: string, figure: string): void {
  console.log(`${what}: ${figure}`)
}

const mib = (bytes: number) => `${Math.round(bytes / mebibyte)} MiB`
const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`
const ms = (value: number | string | undefined) => `${Number(value).toFixed(1)} ms`
