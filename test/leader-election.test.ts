import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, type Collection } from './support/api.ts'
import { startEtcd } from './support/etcd.ts'
import { type Fields, fieldsOf, numberOf, textOf } from './support/json.ts'
import { leasesOf, turnsOf } from './support/kinds.ts'
import { type Running, type ServerProcess, spawnProgram, startServer } from './support/server.ts'
import { resume, suspend } from './support/suspend.ts'
import { Watch } from './support/watch.ts'
import { copyFixture, eventually } from './support/worlds.ts'

/** A test needs the end of several leases. */
const patience = 600_000
const takeoverMs = 180_000
const leaseName = 'setpoint-controllers'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** The lines that the processes write, in order. */
class Notes {
  readonly file: string

  private constructor(file: string) {
    this.file = file
  }

  static async open(): Promise<Notes> {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-turns-'))
    cleanups.push(() => rm(folder, { recursive: true, force: true }))
    return new Notes(join(folder, 'notes'))
  }

  async lines(): Promise<string[]> {
    const text = await readFile(this.file, 'utf8').catch(() => '')
    return text.split('\n').filter(line => line !== '')
  }

  /** Waits for a line. */
  async says(line: string): Promise<void> {
    await eventually(async () => expect(await this.lines()).toContain(line), takeoverMs)
  }

  /** Waits for a new line. */
  async saysAgain(line: string): Promise<void> {
    const count = async () => (await this.lines()).filter(other => other === line).length
    const before = await count()
    await eventually(async () => expect(await count()).toBeGreaterThan(before), takeoverMs)
  }

  /** Returns the writers in order. */
  async terms(): Promise<string[]> {
    const writers = (await this.lines())
      .filter(line => line.endsWith(' ends'))
      .map(line => line.split(' ')[0])
    return writers.flatMap((who, n) => (who === undefined || who === writers[n - 1] ? [] : [who]))
  }
}

interface LeaseState {
  readonly holder: string
  readonly transitions: number
}

async function leaseOf(api: Api): Promise<LeaseState> {
  return leaseStateOf((await leasesOf(api).read(leaseName)).spec)
}

/** Makes the holder's lease too long for a test to wait for its end. Does nothing if another process has it by now. */
async function outlast(api: Api, holder: string): Promise<void> {
  const { status } = await api.jsonPatch(leasesOf(api).at(leaseName), [
    { op: 'test', path: '/spec/holderIdentity', value: holder },
    { op: 'replace', path: '/spec/leaseDurationSeconds', value: 86_400 },
  ])
  expect([200, 422]).toContain(status)
}

function leaseStateOf(spec: Fields): LeaseState {
  return {
    holder: textOf(spec.holderIdentity),
    transitions: numberOf(spec.leaseTransitions),
  }
}

/** Records the lease's states from the call on. A released lease has no holder. */
async function leaseStates(server: ServerProcess): Promise<() => LeaseState[]> {
  const watch = await Watch.open(server.url, leasesOf(new Api(server.url)).at(leaseName))
  cleanups.push(() => watch.cut())
  await watch.synced()
  return () => watch.changes.map(({ raw }) => leaseStateOf(fieldsOf(fieldsOf(raw.object).spec)))
}

const holdersOf = (states: readonly LeaseState[]) =>
  states.map(({ holder }) => holder).filter((holder, n, all) => holder !== all[n - 1])

const ready = async (server: ServerProcess) => (await new Api(server.url).get('/readyz?verbose')).text

async function isLeaderByMetrics(server: ServerProcess): Promise<string | undefined> {
  const { text } = await new Api(server.url).get('/metrics')
  return /^leader_election_master_status\{name="setpoint-controllers"\} (\d)$/m.exec(text)?.[1]
}

describe('two servers on one etcd', () => {
  async function startBoth() {
    const notes = await Notes.open()
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    const plugin = await copyFixture('turns-plugin')
    cleanups.push(() => rm(plugin, { recursive: true, force: true }))
    const start = async (who: string) => {
      const env = { TURNS_WHO: who, TURNS_FILE: notes.file }
      const args = ['--lease-duration', '6']
      const server = await startServer({ store: 'etcd', etcd, plugins: [plugin], env, args })
      cleanups.push(() => server.stop())
      return server
    }
    const a = await start('a')
    await turnsOf(new Api(a.url)).create('one', { everyMs: 50 })
    await notes.says('a ends')
    const b = await start('b')
    await eventually(async () => expect(await ready(b)).toMatch(/controllers standing by, \S+ leads/))
    return { notes, a, b }
  }

  it('run the controllers on one of them, and at once on the other when the first stops', {
    timeout: patience,
  }, async () => {
    const { notes, a, b } = await startBoth()
    await notes.saysAgain('a ends')
    expect(await ready(a)).toContain(`[+]controllers leading (lease ${leaseName})`)
    expect([await isLeaderByMetrics(a), await isLeaderByMetrics(b)]).toEqual(['1', '0'])
    expect((await new Api(b.url).get('/livez?verbose')).text).toContain('[+]leader-election ok')
    expect((await leasesOf(new Api(b.url)).read(leaseName)).spec).toMatchObject({ leaseDurationSeconds: 6 })
    const before = await leaseOf(new Api(b.url))
    const states = await leaseStates(b)
    expect((await a.kill('SIGTERM')).code).toBe(0)
    await notes.says('b ends')
    const after = await leaseOf(new Api(b.url))
    expect(after.holder).not.toBe(before.holder)
    expect(after.transitions).toBe(before.transitions + 1)
    // It did not expire: it was released.
    expect(holdersOf(states())).toEqual([before.holder, '', after.holder])
    expect(await notes.terms()).toEqual(['a', 'b'])
  })

  it('run them on the other when the first is killed, and never on both', {
    timeout: patience,
  }, async () => {
    const { notes, a, b } = await startBoth()
    // The other process may take it before a test could read it.
    const before = await leaseOf(new Api(b.url))
    await a.kill('SIGKILL')
    // Where the system can tell, the killed process is seen to have ended; elsewhere its lease has to expire.
    if (process.platform === 'linux') await outlast(new Api(b.url), before.holder)
    await notes.says('b ends')
    const after = await leaseOf(new Api(b.url))
    expect(after.transitions).toBe(before.transitions + 1)
    // The restarted process stands by.
    await a.restart()
    await eventually(async () => expect(await ready(a)).toMatch(/controllers standing by, \S+ leads/))
    await notes.saysAgain('b ends')
    expect(await notes.terms()).toEqual(['a', 'b'])
  })
})

describe('controllers in processes of their own', () => {
  async function startBoth(spec: object) {
    const notes = await Notes.open()
    const plugin = await copyFixture('turns-plugin')
    cleanups.push(() => rm(plugin, { recursive: true, force: true }))
    const server = await startServer({ plugins: [plugin], args: ['--role', 'apiserver'] })
    cleanups.push(() => server.stop())
    const turns = turnsOf(new Api(server.url))
    await turns.create('one', spec)
    const start = async (who: string) => {
      const running = spawnProgram(
        ['serve', '--role', 'controllers', '--server', server.url, '--plugin', plugin],
        { env: { TURNS_WHO: who, TURNS_FILE: notes.file } },
      )
      cleanups.push(() => running.kill('SIGKILL'))
      await running.says(/^setpoint controllers running against /)
      return running
    }
    const a = await start('a')
    await notes.says('a begins')
    const b = await start('b')
    await b.says(/standing by, another process is the leader/, 'stderr')
    return { notes, server, turns, a, b }
  }

  /** Records the writers of the object in order, from the call on. */
  async function writers(server: ServerProcess, turns: Collection): Promise<() => unknown[]> {
    const watch = await Watch.open(server.url, turns.at('one'))
    cleanups.push(() => watch.close())
    await watch.synced()
    return () => {
      const names = watch.changes.map(({ raw }) => fieldsOf(fieldsOf(raw.object).status).by)
      return names.filter((name, n) => name !== undefined && name !== names[n - 1])
    }
  }

  it('whose event loop is blocked for longer than a lease write nothing afterwards and stand by', {
    timeout: patience,
  }, async () => {
    const { notes, server, turns, a } = await startBoth({ everyMs: 50, blockUntil: 'b ends' })
    const wrote = await writers(server, turns)
    await notes.says('b ends')
    const lines = await notes.lines()
    const before = lines.slice(0, lines.indexOf('b ends'))
    expect(before.filter(line => line.startsWith('a '))).toEqual(['a begins', 'a is blocked'])
    await notes.says('a is refused: LeadershipLostError')
    await a.says(/standing by, another process is the leader/, 'stderr')
    await a.says(/event loop was blocked/, 'stderr')
    await notes.saysAgain('b ends')
    expect((await notes.lines()).filter(line => line.startsWith('a '))).toEqual([
      'a begins',
      'a is blocked',
      'a goes on',
      'a is refused: LeadershipLostError',
    ])
    expect(await notes.terms()).toEqual(['b'])
    expect(wrote()).toEqual(['b'])
  })

  it('that were suspended for longer than a lease stand by when they resume', {
    timeout: patience,
  }, async () => {
    const { notes, server, turns, a } = await startBoth({ everyMs: 2_000 })
    const wrote = await writers(server, turns)
    // Between two runs, so that no write is in flight.
    const { pid = 0 } = a.child
    for (;;) {
      await notes.saysAgain('a ends')
      await suspend(pid)
      if ((await notes.lines()).at(-1) === 'a ends') break
      resume(pid)
    }
    await notes.says('b ends')
    resume(pid)
    await a.says(/standing by, another process is the leader/, 'stderr')
    await notes.saysAgain('b ends')
    expect(await notes.terms()).toEqual(['a', 'b'])
    expect(wrote()).toEqual(['a', 'b'])
  })

  it('finish their run on SIGTERM before another process begins one', { timeout: patience }, async () => {
    const { notes, a } = await startBoth({ everyMs: 60_000, holdUntil: 'go on' })
    a.child.kill('SIGTERM')
    await a.says(/a second signal forces it/, 'stderr')
    await appendFile(notes.file, 'go on\n')
    expect((await a.ended).code).toBe(0)
    await notes.says('b begins')
    expect((await notes.lines()).slice(0, 4)).toEqual(['a begins', 'go on', 'a ends', 'b begins'])
  })

  it('abort their run on a second SIGTERM, and still release the lease', {
    timeout: patience,
  }, async () => {
    const { notes, a, server } = await startBoth({ everyMs: 60_000, holdMs: 600_000 })
    const states = await leaseStates(server)
    expect(await forced(a)).toBe(1)
    await notes.says('b begins')
    expect((await notes.lines()).slice(0, 2)).toEqual(['a begins', 'a is cut off: AbortError'])
    expect(holdersOf(states())).toEqual([expect.any(String), '', expect.any(String)])
  })
})

it('a server on the embedded store aborts its runs on a second SIGTERM and exits', {
  timeout: patience,
}, async () => {
  const notes = await Notes.open()
  const plugin = await copyFixture('turns-plugin')
  cleanups.push(() => rm(plugin, { recursive: true, force: true }))
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-data-'))
  cleanups.push(() => rm(dataDir, { recursive: true, force: true }))
  const running = spawnProgram(
    ['serve', '--listen', '127.0.0.1:0', '--data-dir', dataDir, '--plugin', plugin],
    { env: { TURNS_WHO: 'a', TURNS_FILE: notes.file } },
  )
  cleanups.push(() => running.kill('SIGKILL'))
  const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
  await eventually(() => turnsOf(new Api(url)).create('one', { holdMs: 600_000 }))
  await notes.says('a begins')
  // It is the only process, so there is no election.
  expect((await leasesOf(new Api(url)).list()).items).toEqual([])
  expect(await forced(running)).toBe(1)
  expect((await notes.lines()).slice(0, 2)).toEqual(['a begins', 'a is cut off: AbortError'])
})

/** Sends SIGTERM twice. @returns the exit code */
async function forced(running: Running): Promise<number | null> {
  running.child.kill('SIGTERM')
  await running.says(/a second signal forces it/, 'stderr')
  return (await running.kill('SIGTERM')).code
}
