import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Collection, objectOf, refusalOf } from './support/api.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

describe.each(stores)('names, on the %s store', store => {
  let world: SharedWorld
  let ships: Collection
  let buoys: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['ships-plugin'])
    ships = new Collection(world.api, 'fleet.example.com/v1', 'Ship', 'ships')
    buoys = new Collection(world.api, 'fleet.example.com/v1', 'Buoy', 'buoys')
  })
  afterAll(() => world?.end())

  const long = `${'a'.repeat(126)}.${'b'.repeat(126)}`

  it.each(['a.b', 'ms.queen-mary.2', long])(
    'of a kind with the names of DNS subdomains may be %s',
    async name => {
      await ships.create(name, { port: 'P' })
      expect((await ships.read(name)).metadata.name).toBe(name)
      expect((await ships.list({ fieldSelector: `metadata.name=${name}` })).names).toEqual([name])
      objectOf(await world.api.mergePatch(ships.at(name), { spec: { crew: 1 } }))
      objectOf(await world.api.put(ships.at(name), ships.body(name, { port: 'Q' })))
      objectOf(await world.api.delete(ships.at(name)))
      refusalOf(await world.api.get(ships.at(name)), 404)
    },
  )

  it.each(['a..b', '.a', 'a.', 'A.b', 'a_b', 'a.-b', `${long}c`])(
    'of such a kind may not be %s',
    async name => {
      const { causes } = refusalOf(await world.api.post(ships.path, ships.body(name, {})), 422, 'Invalid')
      expect(causes.map(({ field }) => field)).toEqual(['metadata.name'])
    },
  )

  it('of other kinds have no dots', async () => {
    const { causes } = refusalOf(await world.api.post(buoys.path, buoys.body('a.b', {})), 422, 'Invalid')
    expect(causes.map(({ field }) => field)).toEqual(['metadata.name'])
  })
})
