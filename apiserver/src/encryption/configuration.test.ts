import { expect, it } from 'vitest'
import { type EncryptionRule, readEncryptionConfiguration, ruleFor } from './configuration.ts'

const secretOf = (length: number) => Buffer.alloc(length, 7).toString('base64')
const key = (name: string, length = 32) => `{ name: ${name}, secret: ${secretOf(length)} }`
const providers = (text: string) => rules(`- { resources: [secrets], providers: [${text}] }`)
const resources = (text: string) => rules(`- { resources: [${text}], providers: [{ identity: {} }] }`)
const rules = (text: string) =>
  `apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n${text}\n`
const kms = (text: string) =>
  providers(`{ kms: { apiVersion: v2, name: k, endpoint: 'unix:///k.sock', ${text} } }`)

it('reads the example of Kubernetes, with each provider', () => {
  const { rules: read } = readEncryptionConfiguration(
    rules(`
- resources: [events]
  providers: [{ identity: {} }]
- resources: [secrets, databases.demo.example.com]
  providers:
  - aesgcm: { keys: [${key('new')}, ${key('old', 16)}] }
  - secretbox: { keys: [${key('box')}] }
  - kms: { apiVersion: v2, name: vault, endpoint: 'unix:///var/run/kms.sock', timeout: 1.5s }
  - identity: {}
- resources: ['*.apps', '*.']
  providers: [{ kms: { apiVersion: v2, name: other, endpoint: 'unix:///other.sock' } }, { identity: }]
`),
  )
  expect(read[1]?.providers.map(provider => provider.type)).toEqual([
    'aesgcm',
    'secretbox',
    'kms',
    'identity',
  ])
  expect(read[1]?.providers[2]).toMatchObject({ socket: '/var/run/kms.sock', timeoutMs: 1500 })
  expect(read[2]?.providers[0]).toMatchObject({ socket: '/other.sock', timeoutMs: 3000 })
})

it.each([
  ['', 'secrets', 'secrets'],
  ['', 'configmaps', '*.'],
  ['apps', 'deployments', '*.apps'],
  ['demo.example.com', 'databases', 'databases.demo.example.com'],
  ['demo.example.com', 'tables', '*.*'],
  // The group of a wildcard is a whole one.
  ['deep.apps', 'deployments', '*.*'],
])('the first rule that names %s/%s counts', (group, plural, expected) => {
  const made: EncryptionRule[] = [
    'secrets',
    'databases.demo.example.com',
    '*.apps',
    '*.',
    '*.*',
    'secrets',
  ].map(name => ({ resources: [name], providers: [{ type: 'identity' }] }))
  expect(ruleFor(made, group, plural)?.resources).toEqual([expected])
})

it.each([
  ['text that is no YAML', 'a: [', 'is not valid YAML: see line'],
  ['a list', '[]', 'the configuration must be a mapping'],
  ['another kind', rules('').replace('EncryptionConfiguration', 'Policy'), 'kind must be'],
  ['another version', rules('').replace('/v1', '/v2'), 'apiVersion must be'],
  [
    'no rules',
    rules('').replace('resources:', 'resources: []'),
    'resources must be a list with at least one item',
  ],
  [
    'an unknown field',
    rules('- { resource: [secrets] }'),
    'unknown key resource in resources[0], did you mean',
  ],
  ['no provider', providers(''), 'providers must be a list with at least one item'],
  ['an unknown provider', providers('{ rot13: {} }'), 'unknown key rot13'],
  ['aescbc', providers(`{ aescbc: { keys: [${key('a')}] } }`), 'aescbc is not supported'],
  ['two providers in one', providers(`{ identity: {}, aesgcm: { keys: [${key('a')}] } }`), 'exactly one of'],
  ['no key', providers('{ aesgcm: { keys: [] } }'), 'aesgcm.keys must be a list'],
  [
    'a key of a wrong length',
    providers(`{ aesgcm: { keys: [${key('a', 20)}] } }`),
    '16, 24, 32 bytes, is of 20',
  ],
  ['a short key of secretbox', providers(`{ secretbox: { keys: [${key('a', 16)}] } }`), '32 bytes, is of 16'],
  [
    'a key that is no Base64',
    providers('{ aesgcm: { keys: [{ name: a, secret: "%%%%" }] } }'),
    'must be Base64',
  ],
  [
    'a key without a name',
    providers(`{ aesgcm: { keys: [{ secret: ${secretOf(32)} }] } }`),
    'name must be a text',
  ],
  ['a name with a colon', providers(`{ aesgcm: { keys: [${key('"a:b"')}] } }`), "must not contain ':'"],
  ['a name twice', providers(`{ aesgcm: { keys: [${key('a')}, ${key('a')}] } }`), 'is given twice: "a"'],
  [
    'a name twice in two providers',
    providers(`{ aesgcm: { keys: [${key('a')}] } }, { aesgcm: { keys: [${key('a')}] } }`),
    'is given twice: "a"',
  ],
  ['a star', resources("'*'"), 'must be "*." for the core group'],
  ['a resource in all groups', resources("'secrets.*'"), 'must name one group'],
  ['a resource twice', resources('secrets, secrets'), 'is given twice'],
  ['a hidden resource', resources("secrets, '*.'"), 'is already part of "*."'],
  ['a hidden group', resources("'*.apps', '*.*'"), 'is already part of "*.*"'],
  ['capital letters', resources('Secrets'), 'lowercase'],
  ['KMS v1', kms('').replace('v2', 'v1'), 'kms.apiVersion must be v2'],
  ['a socket of TCP', kms('').replace('unix:///k.sock', 'https://k'), 'must be a Unix socket'],
  ['an endless time-out', kms('timeout: 5m'), 'timeout must be from 1ms to 30s'],
  ['a time-out that is none', kms('timeout: soon'), 'timeout must be from 1ms to 30s'],
  ['a size of a cache', kms('cachesize: 9'), 'unknown key cachesize'],
])('%s is refused, without quoting a secret', (_name, text, problem) => {
  let message = ''
  try {
    readEncryptionConfiguration(text)
  } catch (error) {
    message = String(error)
  }
  expect(message).toContain('EncryptionConfigurationError: ')
  expect(message).toContain(problem)
  expect(message).not.toContain(secretOf(16).slice(0, 12))
})
