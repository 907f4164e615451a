import { defineModel, type Model, singleValueIndex } from '@setpoint/controller-runtime'
import type { Resource } from './history.ts'
import type { Step } from './plan.ts'
import { secondVersion } from './versions.ts'
import type { Release } from './world/world.ts'

/** The releases of the plugin that serves gadgets and parts. */

const others = { email: { type: 'string' }, note: { type: 'string' } } as const
const count = { type: 'integer', minimum: 0, maximum: 9 } as const
const first = { spec: { type: 'object', properties: { ...others, size: count } } } as const
const second = { spec: { type: 'object', properties: { ...others, volume: count } } } as const

const gadget = {
  group: 'sim.example.com',
  version: 'v1',
  kind: 'Gadget',
  singular: 'gadget',
  plural: 'gadgets',
  schema: first,
} as const

const part = {
  group: 'sim.example.com',
  kind: 'Part',
  singular: 'part',
  plural: 'parts',
  scope: 'Namespaced',
} as const

interface Size {
  readonly email?: string
  readonly note?: string
  readonly size?: number
}

interface Volume {
  readonly email?: string
  readonly note?: string
  readonly volume?: number
}

const toSecond = ({ spec: { size, ...rest } }: { readonly spec: Size }): { readonly spec: Volume } => ({
  spec: size === undefined ? rest : { ...rest, volume: size },
})

const toFirst = ({ spec: { volume, ...rest } }: { readonly spec: Volume }): { readonly spec: Size } => ({
  spec: volume === undefined ? rest : { ...rest, size: volume },
})

const v1 = { name: 'v1', schema: first, toHub: toSecond, fromHub: toFirst } as const
const v2 = { name: secondVersion, schema: second, toHub: toFirst, fromHub: toSecond } as const

const indexOfSize = singleValueIndex({
  name: 'spec.size',
  indexFunc: ({ spec }: { readonly spec: Size }) => spec.size?.toString(),
})

const indexOfVolume = singleValueIndex({
  name: 'spec.size',
  indexFunc: ({ spec }: { readonly spec: Volume }) => spec.volume?.toString(),
})

/**
 * Each load makes new functions, so every reload replaces the kind. In release 1 emails need not be unique, and the second
 * version is served. Release 2 stores it.
 */
function gadgetOf(release: number): Model {
  return defineModel({
    ...gadget,
    indexes: [
      singleValueIndex({ name: 'spec.email', unique: release !== 1, indexFunc: ({ spec }) => spec.email }),
      singleValueIndex({ name: 'spec.size', indexFunc: ({ spec }) => spec.size?.toString() }),
    ],
    ...(release > 0 && { versions: [v2] }),
    ...(release === 2 && { storedVersion: secondVersion }),
  })
}

/** Each load gives the same, so a reload of the same release keeps the kind. In release 2 the second version is the hub. */
const firstPart = { ...part, version: 'v1', schema: first, indexes: [indexOfSize] } as const
const partOfRelease: readonly Model[] = [
  defineModel(firstPart),
  defineModel({ ...firstPart, versions: [v2] }),
  defineModel({ ...part, version: secondVersion, schema: second, indexes: [indexOfVolume], versions: [v1] }),
]

export const releases: readonly Release[] = partOfRelease.map((part, release) => () => [
  gadgetOf(release),
  part,
])

/** Returns whether the kinds of a release have a version. */
export function hasVersion(release: number, version: string): boolean {
  return version !== secondVersion || release > 0
}

/** Returns whether a release declares a unique index of a kind. */
export function isUniqueIn(release: number, { unique }: Resource): boolean {
  return unique !== undefined && release !== 1
}

/** Returns the release that is to serve in the end. One that cannot read what an earlier one may have stored is none. */
export function lastRelease(steps: readonly Step[]): number {
  const asked = steps.flatMap(step => ('reload' in step ? [step.reload] : []))
  return asked.length === 0 ? 0 : Math.max(asked.at(-1) ?? 0, 1)
}
