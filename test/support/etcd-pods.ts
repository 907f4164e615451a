import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findEtcd } from '../../scripts/etcd.mjs'
import { type KubernetesObject, type Pod, release } from './helm.ts'
import { arrayOf, fieldsOf, textOf } from './json.ts'
import { killAtExit } from './kill-at-exit.js'
import { fillVolumes, localPath, type Surroundings } from './pod-process.ts'
import { freePorts } from './ports.ts'
import { need } from './tools.ts'
import { eventually } from './worlds.ts'

await need(findEtcd)

/** `host:port` for each container port of a member. */
interface Addresses {
  readonly client: string
  readonly peer: string
  readonly metrics: string
}

/**
 * The pods of the chart's etcd as local processes with the rendered arguments. Only the folders of volumes, the names
 * of members, and the ports differ.
 */
export class EtcdPods {
  readonly members: readonly Addresses[]
  readonly #folder: string
  readonly #pod: Pod
  readonly #children: ChildProcess[] = []

  private constructor(pod: Pod, folder: string, members: readonly Addresses[]) {
    this.#pod = pod
    this.#folder = folder
    this.members = members
  }

  /** Resolves when every member passes its readiness probe. @throws Error with the log of a member that fails */
  static async start(set: KubernetesObject, around: Surroundings): Promise<EtcdPods> {
    const { name, pod } = set
    const count = set.spec.replicas
    if (pod === undefined || typeof count !== 'number') throw new Error(`${name} makes no pods`)
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-etcd-pods-'))
    const ports = await freePorts(3 * count)
    const at = (n: number) => `127.0.0.1:${ports[n]}`
    const members = Array.from({ length: count }, (_, i) => {
      return { client: at(3 * i), peer: at(3 * i + 1), metrics: at(3 * i + 2) }
    })
    const pods = new EtcdPods(pod, folder, members)
    try {
      for (const [i, member] of members.entries()) await pods.#startMember(name, i, member, around)
      for (const member of members) await pods.#isReady(member)
      return pods
    } catch (error) {
      await pods.stop()
      throw error
    }
  }

  /** Pairs of a member's client address in the arguments of other pods and its local address. */
  addresses(set: string): [there: string, here: string][] {
    return this.members.map(({ client }, i) => [`${host(set, i)}:2379`, client])
  }

  async #startMember(set: string, i: number, own: Addresses, around: Surroundings): Promise<void> {
    const volumes = join(this.#folder, String(i))
    await fillVolumes(this.#pod, volumes, around)
    const local = (arg: string) => {
      let here = localPath(arg, this.#pod, volumes).replaceAll('$(POD_NAME)', `${set}-${i}`)
      for (const [n, { client, peer }] of this.members.entries())
        here = here.replaceAll(`${host(set, n)}:2379`, client).replaceAll(`${host(set, n)}:2380`, peer)
      return here
        .replace('0.0.0.0:2379', own.client)
        .replace('0.0.0.0:2380', own.peer)
        .replace('0.0.0.0:2381', own.metrics)
    }
    const [command, ...more] = arrayOf(this.#pod.container.command).map(textOf)
    if (command !== 'etcd') throw new Error(`the container runs ${command}`)
    const args = [...more, ...this.#pod.args.map(local), '--unsafe-no-fsync', '--log-level=warn']
    const child = spawn(await findEtcd(), args, { stdio: ['ignore', 'ignore', 'pipe'], env: {} })
    let log = ''
    child.stderr.on('data', (chunk: Buffer) => {
      log = (log + chunk).slice(-4_000)
    })
    killAtExit(child)
    this.#children.push(child)
    await once(child, 'spawn')
  }

  /** Returns the URL of a member's readiness probe. */
  readiness(metrics: string): string {
    const { path, port } = fieldsOf(fieldsOf(this.#pod.container.readinessProbe).httpGet)
    if (port !== 'metrics') throw new Error(`the readiness probe uses port ${textOf(port)}`)
    return `http://${metrics}${textOf(path)}`
  }

  async #isReady({ metrics }: Addresses): Promise<void> {
    await eventually(async () => {
      const answer = await fetch(this.readiness(metrics))
      if (answer.status !== 200) throw new Error(await answer.text())
    })
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#children.map(async child => {
        const ended = child.exitCode ?? child.signalCode ?? once(child, 'exit')
        child.kill('SIGKILL')
        await ended
      }),
    )
    await rm(this.#folder, { recursive: true, force: true })
  }
}

function host(set: string, i: number): string {
  return `${set}-${i}.${set}.${release.namespace}.svc`
}
