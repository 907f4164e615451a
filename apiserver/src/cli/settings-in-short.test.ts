import { expect, it } from 'vitest'
import { parseCommandLine } from './flags.ts'
import { settingsInShort } from './settings-in-short.ts'

const files: Readonly<Record<string, string>> = { tokens: '[]', password: 'hunter2' }

function inShort(...args: string[]): object {
  const command = parseCommandLine(['serve', ...args], {}, path => files[path] ?? '')
  if (command.command !== 'serve') throw new Error('it does not serve')
  return settingsInShort(command.options, command.configFile)
}

it('has the addresses, the store and the ways to authenticate, and no secret', () => {
  const etcd = [
    '--etcd-endpoints',
    'a:2379,b:2379',
    '--etcd-user',
    'root',
    '--etcd-password-file',
    'password',
  ]
  const access = ['--listen', '0.0.0.0:8090', '--base-path', '/x', '--token-file', 'tokens']
  const shown = inShort(...etcd, ...access, '--oidc-issuer', 'https://i.example.com', '--oidc-audience', 'us')
  expect(shown).toMatchObject({
    role: 'all',
    listen: '0.0.0.0:8090/x',
    authentication: ['token-file', 'oidc'],
    store: { kind: 'etcd', endpoints: ['http://a:2379', 'http://b:2379'], prefix: '/setpoint' },
  })
  expect(JSON.stringify(shown)).not.toContain('hunter2')
})

it('has the server of a process that only runs controllers', () => {
  expect(inShort('--role', 'controllers', '--server', 'https://api.example.com')).toMatchObject({
    role: 'controllers',
    server: 'https://api.example.com',
  })
})
