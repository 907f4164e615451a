import { describe, expect, expectTypeOf, it } from 'vitest'
import { definePlugin } from './plugin.ts'
import { environmentKey } from './settings.ts'

describe('the settings of definePlugin', () => {
  it('are typed in setup: present if required or with a default, and readonly at any depth', () => {
    const plugin = definePlugin({
      name: 'typed',
      settings: {
        type: 'object',
        required: ['url'],
        properties: {
          url: { type: 'string' },
          retries: { type: 'integer', default: 3 },
          token: { type: 'string', secret: true },
          hosts: {
            type: 'array',
            items: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
          },
        },
      },
      setup({ settings }) {
        expectTypeOf(settings.url).toEqualTypeOf<string>()
        expectTypeOf(settings.retries).toEqualTypeOf<number>()
        expectTypeOf(settings.token).toEqualTypeOf<string | undefined>()
        expectTypeOf(settings.hosts).toEqualTypeOf<readonly { readonly name: string }[] | undefined>()
        // @ts-expect-error there is no such setting
        void settings.urls
        // @ts-expect-error settings are readonly
        settings.url = ''
      },
    })
    expect(plugin.settings?.required).toEqual(['url'])
  })

  it.each([
    [{ type: 'object' }, 'must be a schema with'],
    [{ type: 'object', properties: {}, extra: 1 }, 'unknown field extra'],
    [{ type: 'object', properties: { 'a-b': { type: 'string' } } }, 'camelCase'],
    [{ type: 'object', properties: { a: {} } }, 'a schema with a type'],
    [{ type: 'object', properties: {}, required: ['a'] }, 'a is not among the properties'],
    [
      { type: 'object', properties: { token: { type: 'string' }, tokenFile: { type: 'string' } } },
      'same environment variable, ..._TOKEN_FILE',
    ],
    [
      { type: 'object', properties: { apiURL: { type: 'string' }, apiUrl: { type: 'string' } } },
      'same environment variable, ..._API_URL',
    ],
  ])('%j are refused', (settings, why) => {
    // As from JavaScript.
    const declaration = Object.assign({ name: 'wrong' }, { settings })
    expect(() => Reflect.apply(definePlugin, undefined, [declaration])).toThrow(why)
  })
})

it.each([
  ['url', 'URL'],
  ['apiUrl', 'API_URL'],
  ['apiURLPath', 'API_URL_PATH'],
  ['oauth2Token', 'OAUTH2_TOKEN'],
])('the setting %s has the environment key %s', (name, key) => {
  expect(environmentKey(name)).toBe(key)
})
