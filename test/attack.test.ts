import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Arena } from './attack/arena.ts'
import { attacksOn } from './attack/attacks/index.ts'
import { stores } from './support/worlds.ts'

// The short form of `npm run attack`: it judges everything but time.
describe.each(stores)('a server with a small heap and few descriptors on the %s store', store => {
  let arena: Arena

  beforeAll(() => {
    arena = new Arena(store, 'short')
  })
  afterAll(() => arena[Symbol.asyncDispose]())

  for (const attack of attacksOn(store, 'short')) {
    it(`withstands ${attack.name}, sent by ${attack.attacker}`, async () => {
      const { broken, figures } = await arena.perform(attack)
      expect(broken, figures).toEqual([])
    })
  }
})
