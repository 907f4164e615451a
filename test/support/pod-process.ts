import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { KubernetesObject, Pod } from './helm.ts'
import { readImage } from './image.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './json.ts'
import { type Exit, type Running, spawnProgram } from './server.ts'
import { eventually } from './worlds.ts'

/** The parts of a cluster that the release does not contain, and local addresses for those of the cluster. */
export interface Surroundings {
  readonly objects: readonly KubernetesObject[]
  /** Secrets that the release does not create, by name; each maps keys to texts. */
  readonly secrets: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Fills the folder of a volume that is neither a Secret nor a ConfigMap. */
  fill?(volume: Fields, folder: string): Promise<void>
  /** Pairs of an address in the arguments and its local address. */
  readonly addresses: ReadonlyMap<string, string>
}

/**
 * A pod's containers as local processes, with their arguments and variables, and its volumes as folders. Only the paths
 * of volumes, the addresses of other services, and the port differ in the arguments.
 */
export class PodProcess {
  readonly pod: Pod
  /** In the order of their start. */
  readonly sidecars: readonly Running[]
  /** `http(s)://127.0.0.1:port` of the container's only port. */
  url = ''
  readonly #folder: string
  readonly #running: Running

  private constructor(pod: Pod, folder: string, sidecars: readonly Running[], running: Running) {
    this.pod = pod
    this.#folder = folder
    this.sidecars = sidecars
    this.#running = running
  }

  /** Resolves when the program has printed its port. @throws Error with its log if it exits first */
  static async start(pod: Pod, around: Surroundings): Promise<PodProcess> {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-pod-'))
    await mkdir(join(folder, 'work'))
    const volumes = join(folder, 'volumes')
    const image = await readImage()
    const run = async (container: Pod) => {
      await fillVolumes(container, volumes, around)
      const args = container.args.map(arg => localArgument(arg, container, volumes, around))
      const own = Object.fromEntries(container.env.map(({ name, value }) => [textOf(name), textOf(value)]))
      return spawnProgram(args, { env: { ...image.env, ...own }, cwd: join(folder, 'work') })
    }
    const sidecars: Running[] = []
    for (const sidecar of pod.sidecars) {
      sidecars.push(await run(sidecar))
      const [program, test, file] = arrayOf(fieldsOf(fieldsOf(sidecar.container.startupProbe).exec).command)
      if (program !== 'test' || test !== '-s') throw new Error('the startup probe is not test -s FILE')
      await eventually(() => {
        if (!existsSync(join(volumes, textOf(file)))) throw new Error(`there is no ${textOf(file)}`)
      })
    }
    const process = new PodProcess(pod, folder, sidecars, await run(pod))
    const isController = pod.flag('role') === 'controllers'
    const [, url = ''] = isController
      ? await process.#running.says(/"url":"([^"]+)".*serving health and metrics/, 'stderr')
      : await process.#running.says(/^setpoint listening on (https?:\/\/[^/\s]+)/)
    process.url = url
    return process
  }

  /** Returns the URL of a probe. */
  probe(name: 'startupProbe' | 'livenessProbe' | 'readinessProbe'): string {
    const { path, scheme = 'HTTP' } = fieldsOf(fieldsOf(this.pod.container[name]).httpGet)
    const { host } = new URL(this.url)
    return `${textOf(scheme).toLowerCase()}://${host}${textOf(path)}`
  }

  /** Lists files written outside the volumes. A read-only file system would have refused them. */
  strayFiles(): Promise<string[]> {
    return readdir(join(this.#folder, 'work'))
  }

  get log(): string {
    return this.#running.stderr
  }

  async stop(): Promise<Exit> {
    const exit = await this.#running.kill('SIGTERM')
    // As in Kubernetes, after the other containers.
    for (const sidecar of this.sidecars) await sidecar.kill('SIGTERM')
    await rm(this.#folder, { recursive: true, force: true })
    return exit
  }
}

/** Creates a folder for each volume of a pod, at its mount path below `folder`. */
export async function fillVolumes(pod: Pod, folder: string, around: Surroundings): Promise<void> {
  for (const { path, volume } of pod.mounts) await fillVolume(join(folder, path), volume, around)
}

async function fillVolume(folder: string, volume: Fields, around: Surroundings): Promise<void> {
  await mkdir(folder, { recursive: true })
  const write = async (file: string, text: string) => {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), text)
  }
  const { secret, configMap } = volume
  if (secret !== undefined) {
    const { secretName, items } = fieldsOf(secret)
    const texts = secretTexts(textOf(secretName), around)
    for (const { key, path } of arrayOf(items).map(fieldsOf))
      await write(textOf(path), textOf(texts[textOf(key)]))
  } else if (configMap !== undefined) {
    const { name } = fieldsOf(configMap)
    const found = around.objects.find(object => object.kind === 'ConfigMap' && object.name === name)
    for (const [key, text] of Object.entries(fieldsOf(found?.raw.data))) await write(key, textOf(text))
  } else await around.fill?.(volume, folder)
}

export function secretTexts(name: string, { objects, secrets }: Surroundings): Fields {
  const made = objects.find(object => object.kind === 'Secret' && object.name === name)
  return fieldsOf(made?.raw.stringData ?? secrets[name])
}

function localArgument(arg: string, pod: Pod, volumes: string, { addresses }: Surroundings): string {
  let local = localPath(arg.replace(/^(--(?:health-)?listen=).*$/, '$1127.0.0.1:0'), pod, volumes)
  for (const [there, here] of addresses) local = local.replaceAll(there, here)
  return local
}

/** Replaces a volume's mount path in an argument with the folder that `fillVolumes` created. */
export function localPath(arg: string, pod: Pod, volumes: string): string {
  const mount = pod.mounts.find(({ path }) => new RegExp(`=${path}(/|$)`).test(arg))
  // Once only: the volumes' folder may itself be below a mounted path, such as /tmp.
  return mount === undefined ? arg : arg.replace('=/', `=${volumes}/`)
}
