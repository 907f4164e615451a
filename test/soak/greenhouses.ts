import { type Api, Collection } from '../support/api.ts'
import { fieldsOf, optionalText } from '../support/json.ts'
import type { Random } from './random.ts'

const sites = ['hill', 'valley', 'shore']
/** A ConfigMap with a key for each greenhouse, which the operator's finalizer removes. */
const landRegister = 'land-register'

/** Greenhouses of the operator in `test/clients/operator`, which change all the time. */
export class Greenhouses {
  readonly #api: Api
  readonly #random: Random
  readonly #names: number
  /** By version. The webhook converts between them. */
  readonly #stored: Collection
  readonly #older: Collection

  /** @param names few, so that objects are often created under the names of deleted ones */
  constructor(api: Api, random: Random, names: number) {
    this.#api = api
    this.#random = random
    this.#names = names
    const versions = ['v1', 'v1beta1'].map(
      version => new Collection(api, `garden.example.com/${version}`, 'Greenhouse', 'greenhouses', 'default'),
    )
    const [stored, older] = versions
    if (stored === undefined || older === undefined) throw new Error('there are two versions')
    this.#stored = stored
    this.#older = older
  }

  /** Creates, changes or deletes one. Returns the status of the response. */
  async change(): Promise<number> {
    const random = this.#random
    const name = `house-${random.below(this.#names)}`
    const min = random.below(20)
    const stored = this.#stored
    const older = this.#older
    const site = random.pick(sites)
    const spec = { site, minCelsius: min, maxCelsius: min + 10, crops: ['kale'] }
    const { status } = await random.pick([
      () => this.#api.post(stored.path, stored.body(name, spec)),
      () => this.#api.post(older.path, older.body(name, { site, celsius: { from: min, to: min + 10 } })),
      () => this.#api.mergePatch(stored.at(name), { spec: { minCelsius: min, maxCelsius: min + 10 } }),
      () => this.#api.mergePatch(older.at(name), { spec: { celsius: { from: min, to: min + 10 } } }),
      () => this.#api.mergePatch(`${stored.at(name)}/scale`, { spec: { replicas: random.below(9) } }),
      () => this.#api.delete(stored.at(name)),
    ])()
    return status
  }

  deleteAll(): Promise<{ readonly status: number }> {
    return this.#api.delete(this.#stored.path)
  }

  /** Returns what the operator has not done yet. */
  async problems(): Promise<string[]> {
    const configs = new Collection(this.#api, 'v1', 'ConfigMap', 'configmaps', 'default')
    const [{ items }, { items: maps }] = await Promise.all([this.#stored.list(), configs.list()])
    const settings = new Map(maps.map(({ metadata, raw }) => [metadata.name, fieldsOf(raw.data ?? {})]))
    const registered = new Map(Object.entries(settings.get(landRegister) ?? {}))
    settings.delete(landRegister)
    const problems = items.flatMap(({ metadata, spec, status }) => {
      const { name } = metadata
      const { min, vents } = settings.get(name) ?? {}
      const site = registered.get(name)
      settings.delete(name)
      registered.delete(name)
      if (metadata.deletionTimestamp !== undefined) return [`${name} is still being deleted`]
      if (status.observedGeneration !== metadata.generation) return [`${name} has an old status`]
      if (min !== String(spec.minCelsius) || vents !== String(spec.vents))
        return [`the settings of ${name} are min ${optionalText(min)}, vents ${optionalText(vents)}`]
      return site === spec.site ? [] : [`${name} is registered at ${site}`]
    })
    return [
      ...problems,
      ...[...settings.keys()].map(name => `the settings of the deleted ${name} are left`),
      ...[...registered.keys()].map(name => `the deleted ${name} is still registered`),
    ]
  }
}
