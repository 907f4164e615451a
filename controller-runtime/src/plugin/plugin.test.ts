import { describe, expect, test } from 'vitest'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { definePlugin, isPlugin } from './plugin.ts'

describe('a plugin', () => {
  test('has its name, models and setup, and is recognized', () => {
    const plugin = definePlugin({ name: 'demo', models: [Gadget] })
    expect(plugin).toEqual({ name: 'demo', models: [Gadget] })
    expect(isPlugin(plugin)).toBe(true)
    expect(definePlugin({ name: 'demo', readiness: 'deferred' }).readiness).toBe('deferred')
  })

  test.each<[string, unknown, string]>([
    ['no declaration', undefined, 'definePlugin must be given an object'],
    ['a list', [Gadget], 'definePlugin must be given an object'],
    ['a name with capitals', { name: 'Demo' }, 'plugin name "Demo" must be'],
    [
      'a misspelled key',
      { name: 'demo', model: [Gadget] },
      'plugin demo: unknown key model in definePlugin, did you mean models?',
    ],
    [
      'several unknown keys',
      { name: 'demo', setUp() {}, colour: 'red' },
      'plugin demo: unknown key setUp in definePlugin, did you mean setup?; unknown key colour in definePlugin',
    ],
    ['one model', { name: 'demo', models: Gadget }, 'plugin demo: models must be an array'],
    ['other models', { name: 'demo', models: [{}] }, 'plugin demo: models must be made by defineModel'],
    [
      'an unknown readiness',
      { name: 'demo', readiness: 'later' },
      'plugin demo: readiness must be "awaited" or "deferred", is "later"',
    ],
    ['an object for setup', { name: 'demo', setup: {} }, 'plugin demo: setup must be a function'],
  ])('with %s is rejected with the reason', (_, declaration, message) => {
    expect(() => Reflect.apply(definePlugin, undefined, [declaration])).toThrow(TypeError)
    expect(() => Reflect.apply(definePlugin, undefined, [declaration])).toThrow(message)
  })

  test('with a misspelled key does not compile', () => {
    // @ts-expect-error: the key is models
    expect(() => definePlugin({ name: 'demo', model: [Gadget] })).toThrow(TypeError)
  })
})
