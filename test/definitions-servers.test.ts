import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { define, definitionOf, hasCondition, objectsOf, watchDefinition } from './support/definitions.ts'
import { Watch } from './support/watch.ts'
import { startWorld, type World } from './support/worlds.ts'

describe('a definition on two servers', () => {
  let world: World
  let here: Api
  let there: Api

  beforeAll(async () => {
    world = await startWorld('etcd', [])
    here = world.api
    there = new Api((await world.another()).url)
  })
  afterAll(() => world?.end())

  it('is served by the other one for the first request after it was seen as established, 200 times', async () => {
    for (let n = 0; n < 200; n++) {
      const [writer, reader] = n % 2 === 0 ? [here, there] : [there, here]
      const definition = definitionOf({ plural: `far${n}s` })
      const seen = await watchDefinition(n % 4 < 2 ? writer : reader, definition)
      const defined = define(writer, definition)
      await seen.until(({ events }) => events.some(event => hasCondition(event, 'Established')))
      const { spec } = await objectsOf(reader, definition).create('a', { n })
      expect(spec).toEqual({ n })
      await defined
      await seen.close()
    }
  })

  it('is known to the other one when the response to its creation has arrived, also to a watch', async () => {
    for (let n = 0; n < 50; n++) {
      const definition = definitionOf({ plural: `near${n}s` })
      await define(here, definition)
      const watch = await Watch.open(there.url, objectsOf(there, definition).path)
      await watch.synced()
      await watch.close()
    }
  })
})
