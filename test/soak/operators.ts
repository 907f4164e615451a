import { readFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { findCertManager } from '../../scripts/clients.mjs'
import { findGoModule } from '../../scripts/go-modules.mjs'
import { definitionsOf } from '../fixtures/published-definitions/manifests.js'
import { certManager } from '../fixtures/published-definitions/projects.js'
import { ClientWorld } from '../support/client-world.ts'
import { Kubectl } from '../support/kubectl.ts'
import { Operator } from '../support/operator.ts'
import { freePort } from '../support/ports.ts'
import { eventually, type Store } from '../support/worlds.ts'
import { Certificates, issuers } from './certificates.ts'
import { Greenhouses } from './greenhouses.ts'
import { Random } from './random.ts'
import { type Say, startSaying } from './say.ts'
import { Service } from './service.ts'
import { settled } from './settled.ts'
import { Supervised } from './supervised.ts'

const operatorsDefaults = Object.freeze({
  /** Instances of each operator. */
  instances: 2,
  greenhouses: 20,
  certificates: 10,
  /** Milliseconds between two changes of greenhouses, and of certificates, which cost more. */
  greenhousesMs: 100,
  certificatesMs: 2_000,
  /** Mean milliseconds between two kills: longer than a lease. */
  killMs: 25_000,
  /** Milliseconds for the operators to do what is left to do. */
  patienceMs: 180_000,
  /** As for the managers of `clients.ts`. */
  survivedMs: 8_000,
})

/**
 * Runs two instances of cert-manager and of an operator with webhooks while their objects change, and kills servers and
 * operators. At the end every certificate must be valid, and every greenhouse reconciled, and nothing may be left of a
 * deleted object, or in the end of the definitions.
 * @returns true if that holds
 */
export async function reportOperators(store: Store, durationMs: number, seed: number): Promise<boolean> {
  const say = startSaying(store)
  say(`seed ${seed}`)
  const plant = await Plant.start(store)
  try {
    const problems = await plant.soak(durationMs, new Random(seed), say)
    for (const problem of problems) say(`VIOLATION: ${problem}`)
    say(`${problems.length === 0 ? 'no' : problems.length} violation`)
    return problems.length === 0
  } finally {
    await plant.end()
  }
}

/** Servers and operators. Connections go to any of those that are there, through a Service for each. */
class Plant {
  readonly #world: ClientWorld
  readonly #kubectl: Kubectl
  readonly #ends: (() => Promise<void>)[] = []
  readonly #operators: Supervised[] = []
  #servers: { restart(): Promise<void> }[] = []

  private constructor(world: ClientWorld, kubectl: Kubectl) {
    this.#world = world
    this.#kubectl = kubectl
  }

  static async start(store: Store): Promise<Plant> {
    const operator = await Operator.prepare()
    const world = await ClientWorld.start({ store, secure: true }, ['empty-plugin'], operator.serverArgs)
    const plant = new Plant(world, await Kubectl.configured('1.34', world.kubeconfig))
    plant.#ends.push(
      () => operator.remove(),
      () => world.end(),
      () => plant.#kubectl.close(),
    )
    try {
      await plant.#startServers()
      await plant.#startGarden(operator)
      await plant.#startCertManager()
      return plant
    } catch (error) {
      await plant.end()
      throw error
    }
  }

  /** Returns what is wrong at the end. */
  async soak(durationMs: number, random: Random, say: Say): Promise<string[]> {
    const { patienceMs, survivedMs, greenhousesMs, certificatesMs, killMs } = operatorsDefaults
    const { api } = this.#world
    const greenhouses = new Greenhouses(api, random.fork(), operatorsDefaults.greenhouses)
    const certificates = new Certificates(api, random.fork(), operatorsDefaults.certificates)
    const all = [greenhouses, certificates]
    const problems = async () => (await Promise.all(all.map(each => each.problems()))).flat()
    const done = new AbortController()
    const statuses = new Map<string, number>()
    const changing = [
      changeUntil(done.signal, greenhousesMs, () => greenhouses.change(), statuses),
      changeUntil(done.signal, certificatesMs, () => certificates.change(), statuses),
    ]
    const kills = { servers: 0, operators: 0 }
    let longestAwayMs = 0
    const endAt = performance.now() + durationMs
    do {
      await sleep(random.between(0.5, 1.5) * killMs)
      if (random.chance(0.5)) {
        kills.servers += 1
        const killedAt = performance.now()
        await random.pick(this.#servers).restart()
        longestAwayMs = Math.max(longestAwayMs, performance.now() - killedAt)
      } else {
        kills.operators += 1
        const leaders = this.#operators.filter(({ isLeader }) => isLeader)
        await random.pick(random.chance(0.7) && leaders.length > 0 ? leaders : this.#operators).restart()
      }
      const issued = await eventually(() => certificates.issued())
      say(
        `kills: ${JSON.stringify(kills)}, responses: ${tally(statuses)}, revisions of certificates: ${issued}`,
      )
    } while (performance.now() < endAt)
    done.abort()
    await Promise.all(changing)
    const found = await settled(problems, patienceMs)
    say(`a server was away for at most ${Math.round(longestAwayMs)} ms`)
    const exits = this.#operators.flatMap(({ exits }) => exits)
    for (const exit of exits) say(`an operator exited by itself: ${exit}`)
    if (exits.length > 0 && longestAwayMs < survivedMs)
      found.push(`${exits.length} operators exited by themselves`)
    for (const each of all)
      await eventually(async () => {
        const { status } = await each.deleteAll()
        if (status !== 200) throw new Error(`a deletion of all is ${status}`)
      })
    found.push(...(await settled(problems, patienceMs)))
    return [...found, ...(await this.#leave())]
  }

  /** Idempotent, and safe in any state. */
  async end(): Promise<void> {
    await Promise.all(this.#operators.map(operator => operator.stop()))
    for (const end of this.#ends.splice(0).reverse()) await end()
  }

  /** Deletes the definitions, with the objects that are left. Returns what does not go. */
  async #leave(): Promise<string[]> {
    const { code, stderr } = await this.#kubectl.run(['delete', 'crd', '--all', '--timeout=120s'])
    if (code !== 0) return [`the definitions do not go: ${stderr}`]
    return settled(async () => {
      const secrets = await this.#kubectl.output(['get', 'secrets', '-o', 'name'])
      return secrets === '' ? [] : [`these are left: ${secrets}`]
    }, operatorsDefaults.patienceMs)
  }

  async #startServers(): Promise<void> {
    const { world, kubeconfig } = this.#world
    this.#servers = [world.server]
    if (world.store === 'embedded') return
    const other = await world.another()
    this.#servers.push(other)
    const port = await freePort()
    const service = await Service.start(port, [world.server.port, other.port])
    this.#ends.push(() => service.stop())
    const text = await readFile(kubeconfig, 'utf8')
    await writeFile(kubeconfig, text.replaceAll(`127.0.0.1:${world.server.port}`, `127.0.0.1:${port}`))
  }

  async #startGarden(operator: Operator): Promise<void> {
    await operator.install(this.#kubectl, false)
    const kubeconfig = await operator.kubeconfig(this.#kubectl, this.#world.kubeconfig)
    const ports = await Promise.all(Array.from({ length: operatorsDefaults.instances }, () => freePort()))
    const service = await Service.start(operator.port, ports)
    this.#ends.push(() => service.stop())
    for (const port of ports)
      this.#operators.push(await Supervised.start(() => operator.start(this.#world, kubeconfig, port)))
  }

  async #startCertManager(): Promise<void> {
    const [stage] = certManager.stages
    if (stage === undefined) throw new Error('cert-manager has no definitions')
    const definitions = await definitionsOf(await findGoModule(certManager), stage)
    const apply = (input: string) => this.#kubectl.output(['apply', '--server-side', '-f', '-'], { input })
    await apply(definitions.map(definition => JSON.stringify(definition)).join('\n'))
    await this.#kubectl.output(['wait', 'crd', '--all', '--for=condition=Established'])
    await apply(issuers)
    const program = await findCertManager()
    for (let n = 0; n < operatorsDefaults.instances; n++)
      this.#operators.push(await Supervised.start(async () => this.#world.run(program)))
  }
}

/** @param statuses counts the responses; those of a server that is away are 0 */
async function changeUntil(
  signal: AbortSignal,
  everyMs: number,
  change: () => Promise<number>,
  statuses: Map<string, number>,
): Promise<void> {
  while (!signal.aborted) {
    const status = String(await change().catch(() => 0))
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    await sleep(everyMs)
  }
}

function tally(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .sort()
    .map(([what, count]) => `${what}: ${count}`)
    .join(', ')
}
