import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadAll } from 'js-yaml'
import { findHelm } from '../../scripts/kubernetes-tools.mjs'
import { arrayOf, type Fields, fieldsOf, textOf } from './json.ts'
import { need } from './tools.ts'

await need(findHelm)

/** Runs Helm on the chart and parses the objects that it renders. */

const chart = fileURLToPath(new URL('../../charts/setpoint/', import.meta.url))

export const release = Object.freeze({ name: 'rel', namespace: 'ns', fullname: 'rel-setpoint' })

/** The outcome of a helm command. */
export interface HelmResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export async function helm(
  command: string,
  values: object,
  flags: readonly string[] = [],
): Promise<HelmResult> {
  const binary = await findHelm()
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-helm-'))
  try {
    const file = join(folder, 'values.json')
    await writeFile(file, JSON.stringify(values))
    const names = command === 'lint' ? [chart] : [release.name, chart]
    const args = [command, ...names, '--namespace', release.namespace, '--values', file, ...flags]
    return await new Promise(resolve => {
      execFile(binary, args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
        const code = typeof error?.code === 'number' ? error.code : 1
        resolve({ code: error === null ? 0 : code, stdout, stderr })
      })
    })
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** The objects of a release. */
export interface Rendered {
  readonly yaml: string
  readonly objects: readonly KubernetesObject[]
}

/** @throws Error with Helm's stderr */
export async function render(values: object, flags: readonly string[] = []): Promise<Rendered> {
  const { code, stdout, stderr } = await helm('template', values, ['--kube-version', '1.31.0', ...flags])
  if (code !== 0) throw new Error(stderr)
  const documents = loadAll(stdout).filter(document => document !== null && document !== undefined)
  return { yaml: stdout, objects: documents.map(document => new KubernetesObject(fieldsOf(document))) }
}

/** Returns the object of this kind and name. @throws Error if there is none */
export function pick(objects: readonly KubernetesObject[], kind: string, name: string): KubernetesObject {
  const found = objects.find(object => object.kind === kind && object.name === name)
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`)
  return found
}

/** Returns the pod of the object of this kind and name. @throws Error if there is none */
export function podOf(objects: readonly KubernetesObject[], kind: string, name: string): Pod {
  const { pod } = pick(objects, kind, name)
  if (pod === undefined) throw new Error(`${kind} ${name} makes no pods`)
  return pod
}

export class KubernetesObject {
  readonly raw: Fields

  constructor(raw: Fields) {
    this.raw = raw
  }

  get kind(): string {
    return textOf(this.raw.kind)
  }

  get metadata(): Fields {
    return fieldsOf(this.raw.metadata)
  }

  get name(): string {
    return textOf(this.metadata.name)
  }

  get labels(): Fields {
    return fieldsOf(this.metadata.labels ?? {})
  }

  get spec(): Fields {
    return fieldsOf(this.raw.spec)
  }

  /** The pod of a Deployment, a StatefulSet or a Pod; undefined for other kinds. */
  get pod(): Pod | undefined {
    if (this.kind === 'Pod') return new Pod(this.labels, this.spec)
    if (this.kind !== 'Deployment' && this.kind !== 'StatefulSet') return undefined
    const template = fieldsOf(this.spec.template)
    const labels = fieldsOf(fieldsOf(template.metadata).labels)
    return new Pod(
      labels,
      fieldsOf(template.spec),
      arrayOf(this.spec.volumeClaimTemplates ?? []).map(fieldsOf),
    )
  }
}

export interface Mount {
  readonly path: string
  readonly volume: Fields
}

/** A pod made from its template, seen from one of its containers. The chart's pods have one besides sidecars. */
export class Pod {
  readonly labels: Fields
  readonly spec: Fields
  readonly container: Fields
  readonly #claims: readonly Fields[]

  constructor(labels: Fields, spec: Fields, claims: readonly Fields[] = [], container?: Fields) {
    this.labels = labels
    this.spec = spec
    this.#claims = claims
    this.container = container ?? fieldsOf(arrayOf(spec.containers)[0])
  }

  /** The same pod, seen from each of its sidecars. @throws Error for an init container of another kind */
  get sidecars(): readonly Pod[] {
    return arrayOf(this.spec.initContainers ?? [])
      .map(fieldsOf)
      .map(container => {
        if (container.restartPolicy !== 'Always')
          throw new Error(`${textOf(container.name)} is not a sidecar`)
        return new Pod(this.labels, this.spec, this.#claims, container)
      })
  }

  get args(): readonly string[] {
    return arrayOf(this.container.args ?? []).map(textOf)
  }

  get env(): readonly Fields[] {
    return arrayOf(this.container.env ?? []).map(fieldsOf)
  }

  /** The container's ports, by name. */
  get ports(): ReadonlyMap<string, unknown> {
    const ports = arrayOf(this.container.ports ?? []).map(fieldsOf)
    return new Map(ports.map(({ name, containerPort }) => [textOf(name), containerPort]))
  }

  /** @throws Error if a mount has no volume, or a volume no mount */
  get mounts(): readonly Mount[] {
    const volumes = [
      ...arrayOf(this.spec.volumes ?? []).map(fieldsOf),
      ...this.#claims.map(claim => ({ name: fieldsOf(claim.metadata).name })),
    ]
    const containers = [this.spec.containers, this.spec.initContainers ?? []].flatMap(arrayOf).map(fieldsOf)
    const mountsOf = ({ volumeMounts }: Fields) => arrayOf(volumeMounts ?? []).map(fieldsOf)
    const all = containers.flatMap(mountsOf)
    const unused = volumes.find(volume => !all.some(({ name }) => name === volume.name))
    if (unused !== undefined) throw new Error(`nothing mounts the volume ${textOf(unused.name)}`)
    return mountsOf(this.container).map(({ name, mountPath }) => {
      const volume = volumes.find(each => each.name === name)
      if (volume === undefined) throw new Error(`there is no volume ${textOf(name)}`)
      return { path: textOf(mountPath), volume }
    })
  }

  /** Returns the value of a flag in the arguments. */
  flag(name: string): string | undefined {
    return this.args.find(arg => arg.startsWith(`--${name}=`))?.slice(name.length + 3)
  }
}

/** Returns true if `labels` has every label of `selector`. An empty selector selects nothing. */
export function selects(selector: Fields, labels: Fields): boolean {
  const entries = Object.entries(selector)
  return entries.length > 0 && entries.every(([key, value]) => labels[key] === value)
}
