import { setTimeout as sleep } from 'node:timers/promises'
import { findGoClients, findPythonClients, findRustClients } from '../../scripts/clients.mjs'
import { type Api, Collection } from '../support/api.ts'
import { type ClientSetting, ClientWorld, crossedSettings, testSettings } from '../support/client-world.ts'
import { arrayOf, fieldsOf, textOf } from '../support/json.ts'
import { freePort } from '../support/ports.ts'
import { eventually, type Store } from '../support/worlds.ts'
import { Random } from './random.ts'
import { type Say, startSaying } from './say.ts'
import { settled } from './settled.ts'
import { Supervised } from './supervised.ts'

const clientsDefaults = Object.freeze({
  managers: 2,
  /** Few names, so that objects are often created under the names of deleted ones. */
  names: 20,
  /** Milliseconds between two changes of Widgets. */
  everyMs: 50,
  /** Mean milliseconds between two kills: longer than a lease. */
  killMs: 25_000,
  /** Milliseconds for the controllers to reconcile the last changes. */
  patienceMs: 120_000,
  /**
   * A leader survives this many milliseconds without a server: controller-runtime's renew deadline of 10 s, less the 2
   * s between two attempts.
   */
  survivedMs: 8_000,
})

/**
 * Runs two managers of controller-runtime while Widgets change, and kills the server and managers. At the end every
 * Widget must be reconciled, and nothing may be left of a deleted one. No manager may exit by itself, unless the server
 * was away for so long that it loses its lease. The other clients run before.
 * @returns true if that holds
 */
export async function reportClients(store: Store, durationMs: number, seed: number): Promise<boolean> {
  const say = startSaying(store)
  say(`seed ${seed}`)
  const rust = await findRustClients()
  await useKubeRs(settingOf(testSettings, store), rust, say)
  const crossed = settingOf(crossedSettings, store)
  await useKubeRs(crossed, rust, say)
  const problems = await soakManagers(crossed, durationMs, new Random(seed), say)
  for (const problem of problems) say(`VIOLATION: ${problem}`)
  say(`${problems.length === 0 ? 'no' : problems.length} violation`)
  return problems.length === 0
}

function settingOf(settings: readonly ClientSetting[], store: Store): ClientSetting {
  const found = settings.find(setting => setting.store === store)
  if (found === undefined) throw new Error(`no setting has the store ${store}`)
  return found
}

/** Its controller adds a finalizer to every Widget, so it has a server of its own. */
async function useKubeRs(setting: ClientSetting, program: string, say: Say): Promise<void> {
  const world = await ClientWorld.start(setting)
  try {
    const facts = new Map(await world.facts(program))
    const isRight =
      facts.get('applied') === 1 && facts.get('size') === '1' && facts.get('config left') === false
    if (!isRight || !arrayOf(facts.get('groups')).includes('widgets.example.com'))
      throw new Error(`unexpected facts from kube-rs: ${JSON.stringify([...facts])}`)
    say(`kube-rs works on ${setting.title}: discovery, apply, watcher and a controller with a finalizer`)
  } finally {
    await world.end()
  }
}

/** Returns what is wrong at the end. */
async function soakManagers(
  setting: ClientSetting,
  durationMs: number,
  random: Random,
  say: Say,
): Promise<string[]> {
  const program = await findGoClients()
  const python = await findPythonClients()
  const world = await ClientWorld.start(setting)
  const managers: Manager[] = []
  try {
    await world.facts(program, ['informers'])
    await world.facts(python)
    say(`client-go's informers and the Python client work on ${setting.title}`)
    for (let n = 0; n < clientsDefaults.managers; n++) managers.push(await startManager(world, program))
    const { api } = world
    const done = new AbortController()
    const changes = new Changes(widgetsOf(api), random.fork())
    const changing = changes.run(done.signal)
    const kills = { server: 0, managers: 0 }
    let longestAwayMs = 0
    const progress = () =>
      `${changes.count} changes, ${reconcilesOf(managers)} reconciles, kills: ${JSON.stringify(kills)}`
    const endAt = performance.now() + durationMs
    do {
      await sleep(random.between(0.5, 1.5) * clientsDefaults.killMs)
      await Promise.all(managers.map(({ reconciles }) => reconciles.sample()))
      if (random.chance(0.5)) {
        kills.server += 1
        const killedAt = performance.now()
        await world.world.server.restart()
        longestAwayMs = Math.max(longestAwayMs, performance.now() - killedAt)
      } else {
        kills.managers += 1
        const leader = await leaderOf(managers)
        await leader.program.restart()
      }
      say(progress())
    } while (performance.now() < endAt)
    done.abort()
    await changing
    const problems = await settled(() => problemsOf(api), clientsDefaults.patienceMs)
    await Promise.all(managers.map(({ reconciles }) => reconciles.sample()))
    say(`${progress()}; the server was away for at most ${Math.round(longestAwayMs)} ms`)
    const exits = managers.flatMap(manager => manager.program.exits)
    for (const exit of exits) say(`a manager exited by itself: ${exit}`)
    if (exits.length > 0 && longestAwayMs < clientsDefaults.survivedMs)
      problems.push(`${exits.length} managers exited by themselves`)
    await changes.deleteAll()
    return [...problems, ...(await settled(() => problemsOf(api), clientsDefaults.patienceMs))]
  } finally {
    await Promise.all(managers.map(manager => manager.program.stop()))
    await world.end()
  }
}

function widgetsOf(api: Api): Collection {
  return new Collection(api, 'widgets.example.com/v1', 'Widget', 'widgets', 'default')
}

interface Manager {
  readonly program: Supervised
  readonly reconciles: Reconciles
}

async function startManager(world: ClientWorld, program: string): Promise<Manager> {
  const port = await freePort()
  const reconciles = new Reconciles(port)
  const args = ['manager', '--metrics-bind-address', `127.0.0.1:${port}`]
  const run = async () => world.run(program, args)
  return { program: await Supervised.start(run, () => reconciles.restarted()), reconciles }
}

/** Counts reconciles, by the metrics of a manager. */
class Reconciles {
  readonly #port: number
  /** Reconciles of earlier processes, and of the present one as of the last sample. */
  #before = 0
  #now = 0

  constructor(port: number) {
    this.#port = port
  }

  get total(): number {
    return this.#before + this.#now
  }

  /** Reads the metrics, unless the manager is not running. */
  async sample(): Promise<void> {
    const text = await fetch(`http://127.0.0.1:${this.#port}/metrics`)
      .then(response => response.text())
      .catch(() => '')
    const samples = text.split('\n').filter(line => line.startsWith('controller_runtime_reconcile_total{'))
    const sum = samples.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
    this.#now = Math.max(this.#now, sum)
  }

  restarted(): void {
    this.#before += this.#now
    this.#now = 0
  }
}

async function leaderOf(managers: readonly Manager[]): Promise<Manager> {
  return eventually(async () => {
    for (const manager of managers) if (manager.program.isLeader) return manager
    throw new Error('no manager leads')
  })
}

function reconcilesOf(managers: readonly Manager[]): number {
  return managers.reduce((sum, { reconciles }) => sum + reconciles.total, 0)
}

/** Creates, changes and deletes Widgets. */
class Changes {
  count = 0
  readonly #widgets: Collection
  readonly #random: Random

  constructor(widgets: Collection, random: Random) {
    this.#widgets = widgets
    this.#random = random
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#change().catch(() => {})
      await sleep(clientsDefaults.everyMs)
    }
  }

  async deleteAll(): Promise<void> {
    await eventually(async () => {
      const { status, text } = await this.#widgets.api.delete(this.#widgets.path)
      if (status !== 200) throw new Error(text)
    })
  }

  /** Fails while the server is away. */
  async #change(): Promise<void> {
    const widgets = this.#widgets
    const name = `w-${this.#random.below(clientsDefaults.names)}`
    const spec = { size: this.#random.below(1_000_000) }
    const way = this.#random.pick(['create', 'patch', 'patch', 'delete'])
    const { api } = widgets
    const { status } =
      way === 'create'
        ? await api.post(widgets.path, widgets.body(name, spec))
        : way === 'patch'
          ? await api.mergePatch(widgets.at(name), { spec })
          : await api.delete(widgets.at(name))
    if (status < 300) this.count += 1
  }
}

/** Returns which Widgets are not reconciled. */
async function problemsOf(api: Api): Promise<string[]> {
  const configs = new Collection(api, 'v1', 'ConfigMap', 'configmaps', 'default')
  const [widgets, { items }] = await Promise.all([widgetsOf(api).list(), configs.list()])
  const sizes = new Map(items.map(({ metadata, raw }) => [metadata.name, textOf(fieldsOf(raw.data).size)]))
  const problems = widgets.items.flatMap(({ metadata, spec, status }) => {
    const size = sizes.get(metadata.name)
    sizes.delete(metadata.name)
    if (metadata.deletionTimestamp !== undefined) return [`${metadata.name} is still being deleted`]
    if (status.observedGeneration !== metadata.generation) return [`${metadata.name} has an old status`]
    return size === String(spec.size) ? [] : [`the ConfigMap of ${metadata.name} has size ${size}`]
  })
  return [...problems, ...[...sizes.keys()].map(name => `the ConfigMap of the deleted ${name} is left`)]
}
