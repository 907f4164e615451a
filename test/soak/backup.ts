import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGzip } from 'node:zlib'
import { Api } from '../support/api.ts'
import { startEtcd } from '../support/etcd.ts'
import { itemsOf } from '../support/kinds.ts'
import { type Exit, spawnProgram, startServer } from '../support/server.ts'
import { copyFixture, eventually, type Store } from '../support/worlds.ts'
import { type Say, startSaying } from './say.ts'

export const backupDefaults = Object.freeze({
  /** Bytes of an object's spec. */
  objectBytes: 1_024,
  writers: 4,
  /** Milliseconds between two reads of the other client. */
  readEveryMs: 10,
  /** Milliseconds that its latency is measured without a backup. */
  quietMs: 10_000,
  /** Milliseconds for the server to have all objects in its caches. */
  patienceMs: 900_000,
  /**
   * Megabytes that a command may take more than when it is idle, and a server more than under the same load without a
   * backup.
   */
  promiseMb: 100,
})

/** What a run of a command cost. */
interface Cost {
  readonly seconds: number
  /** Most anonymous memory, megabytes. */
  readonly memoryMb: number
}

/** What a server went through under load. */
interface Loaded {
  readonly seconds: number
  /** Most anonymous memory beyond that at the start, megabytes. */
  readonly moreMb: number
  readonly writes: number
  /** Of another client's GET before and meanwhile, milliseconds. */
  readonly p99: { readonly before: number; readonly meanwhile: number }
}

/**
 * Fills a store with objects, by a backup that it makes itself, backs the server up under load, and restores that
 * elsewhere. Prints time and memory of each command, and the latency of another client's reads. The same load without a
 * backup, on the server started again, tells what of its memory is for the writes.
 * @returns true if nothing took more memory than promised, and the backup has every object
 */
export async function reportBackup(store: Store, objects: number): Promise<boolean> {
  const say = startSaying(store)
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-soak-backup-'))
  const etcd =
    store === 'etcd'
      ? await startEtcd({ flags: ['--quota-backend-bytes', String(8 * 1024 ** 3)] })
      : undefined
  try {
    say(
      `${objects} objects of ${backupDefaults.objectBytes} bytes, load of the machine ${loadavg()[0]?.toFixed(1)}`,
    )
    const [made, taken] = [join(folder, 'made.backup'), join(folder, 'taken.backup')]
    await makeBackup(made, objects)
    const at = (name: string) =>
      etcd === undefined
        ? ['--data-dir', join(folder, name)]
        : ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', `/${name}`]
    const filled = await measured(say, 'restore of the backup that was made', ['restore', made, ...at('a')])
    const plugin = await copyFixture('items-plugin')
    const server = await startServer({
      store,
      plugins: [plugin],
      ...(etcd === undefined ? { dataDir: join(folder, 'a') } : { etcd, etcdPrefix: '/a' }),
    })
    try {
      let isCheap = false
      const loaded = await underLoad(server, objects, async () => {
        isCheap = await measured(say, 'backup under load', ['backup', taken, '--server', server.url])
      })
      say(`during the backup, ${said(loaded)}`)
      await server.kill('SIGTERM')
      await server.restart()
      const control = await underLoad(server, objects, () => sleep(loaded.seconds * 1_000))
      say(`as long without one, ${said(control)}`)
      const restored = await measured(say, 'restore elsewhere', ['restore', taken, ...at('b')])
      say(`the file has ${((await stat(taken)).size / 1e6).toFixed(0)} MB`)
      const isSmall = loaded.moreMb - control.moreMb <= backupDefaults.promiseMb
      return [filled, isCheap, isSmall, restored].every(isRight => isRight)
    } finally {
      await server.stop()
      await rm(plugin, { recursive: true })
    }
  } finally {
    await etcd?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

function said({ writes, moreMb, p99 }: Loaded): string {
  return `${writes} writes, the server took ${moreMb.toFixed(0)} MB more than before; GET of another client: p99 ${p99.before.toFixed(1)} ms before, ${p99.meanwhile.toFixed(1)} ms meanwhile`
}

/** Does something while one client of a server reads, and others write. */
async function underLoad(
  server: { readonly url: string; readonly pid: number },
  objects: number,
  something: () => Promise<unknown>,
): Promise<Loaded> {
  const items = itemsOf(new Api(server.url))
  const isReady = async () => {
    const { status } = await items.api.get('/readyz')
    if (status !== 200) throw new Error(`the server is not ready: ${status}`)
  }
  await eventually(isReady, backupDefaults.patienceMs)
  const done = new AbortController()
  const latencies: number[] = []
  let writes = 0
  const reader = (async () => {
    while (!done.signal.aborted) {
      const begun = performance.now()
      await items.api.get(items.at(`item-${Math.floor(Math.random() * objects)}`))
      latencies.push(performance.now() - begun)
      await sleep(backupDefaults.readEveryMs)
    }
  })()
  const writers = Array.from({ length: backupDefaults.writers }, async (_, writer) => {
    for (let n = 0; !done.signal.aborted; n++) {
      await items.api.mergePatch(items.at(`item-${(writer + backupDefaults.writers * n) % objects}`), {
        spec: { rank: String(n) },
      })
      writes += 1
    }
  })
  try {
    await sleep(backupDefaults.quietMs)
    const before = p99(latencies.splice(0))
    const idleMb = await anonymousMb(server.pid)
    writes = 0
    let mostMb = idleMb
    const sampling = sample(async () => {
      mostMb = Math.max(mostMb, await anonymousMb(server.pid))
    }, done.signal)
    const begun = performance.now()
    await something()
    const seconds = (performance.now() - begun) / 1_000
    done.abort()
    await sampling
    return { seconds, moreMb: mostMb - idleMb, writes, p99: { before, meanwhile: p99(latencies) } }
  } finally {
    done.abort()
    await Promise.allSettled([reader, ...writers])
  }
}

/** Runs a command to its end. Returns false if it took too much memory. @throws Error if it fails */
async function measured(say: Say, what: string, args: readonly string[]): Promise<boolean> {
  const ended = new AbortController()
  const begun = performance.now()
  const running = spawnProgram(args)
  const memory: number[] = []
  const sampling = sample(async () => {
    memory.push(await anonymousMb(running.child.pid ?? 0))
  }, ended.signal)
  const exit: Exit = await running.ended
  ended.abort()
  await sampling
  if (exit.code !== 0) throw new Error(`${what} failed: ${exit.stderr}`)
  const cost: Cost = { seconds: (performance.now() - begun) / 1_000, memoryMb: Math.max(...memory) }
  // The first samples are those of a program that has just started.
  const idle = Math.min(...memory.filter(mb => mb > 30))
  say(`${what}: ${cost.seconds.toFixed(1)} s, at most ${cost.memoryMb.toFixed(0)} MB; ${exit.stdout.trim()}`)
  return cost.memoryMb - idle <= backupDefaults.promiseMb
}

async function sample(take: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await take()
    await sleep(100)
  }
}

/** Returns the memory of a process without mapped files, which the system takes back as it likes; 0 if it has ended. */
async function anonymousMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1_024
}

function p99(latencies: readonly number[]): number {
  const sorted = [...latencies].sort((left, right) => left - right)
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
}

/** Writes a backup of Items, as docs/operations/backup-format.md describes it. Half of each is random. */
async function makeBackup(path: string, objects: number): Promise<void> {
  const zip = createGzip({ level: 1 })
  const file = zip.pipe(createWriteStream(path))
  const hash = createHash('sha256')
  const write = async (lines: string) => {
    hash.update(lines)
    if (!zip.write(lines)) await once(zip, 'drain')
  }
  const takenAt = '2026-01-01T00:00:00Z'
  const header = {
    setpoint: 'backup',
    format: 1,
    kind: 'full',
    revision: objects + 1,
    takenAt,
    program: 'soak',
    storeBytes: 0,
  }
  await write(`${JSON.stringify(header)}\n`)
  const half = backupDefaults.objectBytes / 2
  for (let n = 0; n < objects; n++) {
    const object = {
      apiVersion: 'items.example.com/v1',
      kind: 'Item',
      metadata: { name: `item-${n}`, uid: randomUUID(), generation: 1, creationTimestamp: takenAt },
      spec: { op: randomBytes(half / 2).toString('hex') + 'x'.repeat(half) },
    }
    const key = `objects/items.example.com/items/item-${n}`
    await write(
      `{"key":"${key}","version":${objects - n},"reservations":{},"object":${JSON.stringify(object)}}\n`,
    )
  }
  const footer = { end: true, entries: objects, objects, deletions: 0, sha256: hash.digest('hex') }
  zip.end(`${JSON.stringify(footer)}\n`)
  await once(file, 'finish')
}
