import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { definePlugin, type SettingsSchema } from '@setpoint/controller-runtime'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { secrets } from '../log/index.ts'
import { readSettings, SettingsError, type SettingsSources, straySettings } from './plugin-settings.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-settings-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const properties = {
  apiUrl: { type: 'string', format: 'uri' },
  retries: { type: 'integer', minimum: 1, default: 3 },
  ratio: { type: 'number' },
  verbose: { type: 'boolean' },
  hosts: { type: 'array', items: { type: 'string', minLength: 2 } },
  ports: { type: 'array', items: { type: 'integer' } },
  limits: { type: 'object', properties: { cpu: { type: 'integer' }, name: { type: 'string' } } },
  apiToken: { type: 'string', minLength: 8, secret: true },
  login: {
    type: 'object',
    properties: { user: { type: 'string' }, password: { type: 'string', secret: true } },
  },
} as const

const schema = { type: 'object', properties } as const satisfies SettingsSchema

function read(
  { env = {}, config = {} }: Partial<SettingsSources> = {},
  settings: SettingsSchema | undefined = schema,
  others: readonly string[] = [],
) {
  const plugin = definePlugin({ name: 'mail-demo', ...(settings && { settings }) })
  return readSettings(plugin, { env, config }, others)
}

function refusal(...args: Parameters<typeof read>): string {
  try {
    read(...args)
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return error.message
  }
  throw new Error('the settings were accepted')
}

const section = (values: Record<string, unknown>) => ({ config: { 'mail-demo': values } })

describe('settings of a plugin', () => {
  it('have the types of the schema, from the environment', () => {
    const env = {
      SETPOINT_PLUGIN_MAIL_DEMO_API_URL: 'https://example.com',
      SETPOINT_PLUGIN_MAIL_DEMO_RETRIES: '5',
      SETPOINT_PLUGIN_MAIL_DEMO_RATIO: '0.5',
      SETPOINT_PLUGIN_MAIL_DEMO_VERBOSE: 'true',
      SETPOINT_PLUGIN_MAIL_DEMO_HOSTS: 'one, two',
      SETPOINT_PLUGIN_MAIL_DEMO_PORTS: '[1, 2]',
      SETPOINT_PLUGIN_MAIL_DEMO_LIMITS: '{"cpu": 2}',
      SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN: '',
    }
    expect(read({ env })).toEqual({
      apiUrl: 'https://example.com',
      retries: 5,
      ratio: 0.5,
      verbose: true,
      hosts: ['one', 'two'],
      ports: [1, 2],
      limits: { cpu: 2 },
    })
  })

  it('have the types of the schema, from the configuration file, whose scalars are texts', () => {
    const given = { retries: '5', verbose: 'false', ports: ['1', '2'], limits: { cpu: '2', name: '007' } }
    expect(read(section(given))).toEqual({
      retries: 5,
      verbose: false,
      ports: [1, 2],
      limits: { cpu: 2, name: '007' },
    })
  })

  it('come from the environment before the file, and have defaults', () => {
    expect(read()).toEqual({ retries: 3 })
    const env = { SETPOINT_PLUGIN_MAIL_DEMO_RETRIES: '7' }
    expect(read({ env, ...section({ retries: '5', verbose: 'true' }) })).toEqual({
      retries: 7,
      verbose: true,
    })
  })

  it('come from files, without the line break at the end', async () => {
    const file = join(dir, 'token')
    await writeFile(file, 'in-a-file\n')
    const token = { apiToken: 'in-a-file', retries: 3 }
    expect(read({ env: { SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN_FILE: file } })).toEqual(token)
    expect(read(section({ apiTokenFile: file }))).toEqual(token)
    await writeFile(file, 'renewed-one')
    expect(read(section({ apiTokenFile: file }))).toMatchObject({ apiToken: 'renewed-one' })
  })

  it('are refused together, with setting and source', () => {
    const env = { SETPOINT_PLUGIN_MAIL_DEMO_RETRIES: 'many', SETPOINT_PLUGIN_MAIL_DEMO_HOSTS: 'a,bb' }
    const message = refusal({ env, ...section({ limits: { cpu: 'x' } }) })
    expect(message).toContain('retries must be an integer, is "many" (SETPOINT_PLUGIN_MAIL_DEMO_RETRIES)')
    expect(message).toContain('hosts.0 must have at least 2 characters')
    expect(message).toContain('limits.cpu must be an integer, is "x" (plugins.mail-demo.limits)')
    expect(refusal({ env: { SETPOINT_PLUGIN_MAIL_DEMO_RETRIES: '9007199254740993' } })).toContain('integer')
  })

  it('say how to set a required one, a secret also by a file', () => {
    expect(refusal({}, { ...schema, required: ['apiUrl'] })).toBe(
      'its settings are invalid: apiUrl is required (set SETPOINT_PLUGIN_MAIL_DEMO_API_URL or plugins.mail-demo.apiUrl)',
    )
    expect(refusal({}, { ...schema, required: ['apiToken'] })).toBe(
      'its settings are invalid: apiToken is required (set SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN or plugins.mail-demo.apiToken, or SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN_FILE or plugins.mail-demo.apiTokenFile to the path of a file with it)',
    )
  })

  it('are refused when they are unknown, with the nearest name', () => {
    expect(refusal(section({ retrys: '1' }))).toContain(
      'plugins.mail-demo.retrys is not a setting; did you mean retries?',
    )
    expect(refusal({ env: { SETPOINT_PLUGIN_MAIL_DEMO_API_TOKN: 'x' } })).toContain(
      'did you mean SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN?',
    )
    expect(refusal(section({ apiTokenFiel: 'x' }))).toContain('did you mean apiTokenFile?')
    expect(refusal({ env: { SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN_FIEL: 'x' } })).toContain(
      'did you mean SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN_FILE?',
    )
    expect(refusal(section({ limits: { cpus: '1' } }))).toContain('limits.cpus is not a setting')
    expect(
      refusal({ env: { SETPOINT_PLUGIN_MAIL_DEMO_ANY: '1' } }, { type: 'object', properties: {} }),
    ).toContain('the plugin has no settings')
  })

  it('leave variables alone that are for another plugin, or that Kubernetes sets for a Service', () => {
    const env = {
      SETPOINT_PLUGIN_MAIL_DEMO_TWO_URL: 'x',
      SETPOINT_PLUGIN_MAIL_DEMO_SERVICE_HOST: '10.0.0.1',
      SETPOINT_PLUGIN_MAIL_DEMO_PORT: 'tcp://10.0.0.1:80',
    }
    expect(read({ env }, schema, ['mail-demo', 'mail-demo-two'])).toEqual({ retries: 3 })
  })

  it('are refused when a value and its file are both given, or the file cannot be read', () => {
    const env = {
      SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN: 'long-enough',
      SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN_FILE: join(dir, 'token'),
    }
    expect(refusal({ env })).toContain('are both set')
    expect(refusal(section({ apiTokenFile: join(dir, 'gone') }))).toMatch(
      /apiTokenFile: the file cannot be read/,
    )
  })

  it('never show a secret in a message, and hide it from every text of the process', () => {
    const env = { SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN: 'tiny-44' }
    const message = refusal({
      env,
      ...section({ login: { user: 'u', password: { deep: 'pass-4711' }, 'key-0815': 'x' } }),
    })
    expect(message).toContain('apiToken does not match its schema (SETPOINT_PLUGIN_MAIL_DEMO_API_TOKEN)')
    expect(message).toContain('login does not match its schema')
    expect(message).not.toMatch(/tiny|4711/)
    expect(secrets.redact('x tiny-44 pass-4711')).toBe('x [secret] [secret]')
    expect(secrets.redactLine('{"a":{"b":["tiny-44"]},"n":1}\n')).toBe('{"a":{"b":["[secret]"]},"n":1}\n')
  })
})

it('a schema of settings that the server does not enforce is refused', () => {
  const settings: SettingsSchema = { type: 'object', properties: { a: { type: 'string', pattern: '(' } } }
  expect(refusal({}, settings)).toContain('its settings cannot be checked: settings.properties.a.pattern')
})

it('settings for no plugin are reported, with the nearest name of a plugin', () => {
  const env = { SETPOINT_PLUGIN_OTHER_A: 'x', SETPOINT_PLUGIN_MAIL_B: 'x' }
  expect(straySettings({ env, config: { mial: {} } }, ['mail'])).toEqual([
    'the environment variable SETPOINT_PLUGIN_OTHER_A is for no plugin and has no effect',
    'plugins.mial of the configuration file is for no plugin and has no effect; did you mean mail?',
  ])
})
