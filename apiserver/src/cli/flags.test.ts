import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openssl } from '../../../test/support/openssl.ts'
import { environmentName } from './flag.ts'
import { type CommandLine, parseCommandLine } from './flags.ts'
import { readPluginSource } from './flags-plugin.ts'
import { areas, flags, flagsOf } from './flags-table.ts'
import { UsageError } from './flags-values.ts'
import type { ServeOptions } from './options.ts'

type Env = Record<string, string>

/** Parses `setpoint serve ...args` with files that exist only here. */
function parse(args: string[], env: Env = {}, files: Record<string, string> = {}): CommandLine {
  return parseCommandLine(['serve', ...args], env, path => {
    // Every folder is a plugin's.
    const text = files[path] ?? (path.endsWith('package.json') ? '{}' : undefined)
    if (text === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`)
    return text
  })
}

function serve(args: string[], env: Env = {}, files: Record<string, string> = {}): ServeOptions {
  const parsed = parse(args, env, files)
  if (parsed.command !== 'serve') throw new Error(`parsed as ${parsed.command}`)
  return parsed.options
}

/** Returns the message of the refusal; fails if the arguments are accepted. */
function refusal(args: string[], env: Env = {}, files: Record<string, string> = {}): string {
  try {
    parse(args, env, files)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    expect(error.exitCode).toBe(2)
    expect(error.message).not.toContain('\n')
    return error.message
  }
  throw new Error(`${args.join(' ')} was accepted`)
}

/** The source of a plugin in a folder of the working directory. */
function folder(name: string) {
  return { kind: 'folder' as const, path: resolve(name), label: resolve(name) }
}

/** A self-signed certificate and its key. */
async function makeCertificate(): Promise<{ readonly cert: string; readonly key: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'setpoint-flags-'))
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=test']
  const files = ['-keyout', 'key.pem', '-out', 'cert.pem']
  await openssl(folder, 'req', '-x509', ...ec, ...files)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const made = { cert: read('cert.pem'), key: read('key.pem') }
  rmSync(folder, { recursive: true })
  return made
}

const { cert: pem, key } = await makeCertificate()
const other = await makeCertificate()

describe('--plugin', () => {
  const cwd = resolve()
  const read = (text: string, ...files: string[]) =>
    readPluginSource(text, path => {
      if (!files.includes(path)) throw new Error(`ENOENT: no such file or directory, open '${path}'`)
      return '{}'
    })

  it('is a folder, an archive, or a package that is installed in the working directory or above', () => {
    const inFolder = join(cwd, 'demo', 'package.json')
    const installed = join(cwd, 'node_modules', 'demo', 'package.json')
    const scoped = join(dirname(cwd), 'node_modules', '@acme', 'demo', 'package.json')
    expect(read('./demo', inFolder)).toEqual(folder('demo'))
    // A folder comes first.
    expect(read('demo', inFolder, installed)).toEqual(folder('demo'))
    expect(read('demo', installed)).toEqual({ kind: 'package', path: dirname(installed), label: 'npm:demo' })
    expect(read('@acme/demo', scoped)).toEqual({
      kind: 'package',
      path: dirname(scoped),
      label: 'npm:@acme/demo',
    })
    const archive = join(cwd, 'demo-1.0.0.tgz')
    expect(read('demo-1.0.0.tgz')).toEqual({ kind: 'archive', path: archive, label: archive })
  })

  it.each(['demo', './demo', '@acme/demo', '../x/y', 'a b', '@acme', ''])(
    '%j that is none is refused',
    text => {
      expect(() => read(text)).toThrow(UsageError)
    },
  )
})

describe('setpoint serve', () => {
  it('has a default for everything', () => {
    expect(serve([])).toEqual({
      role: 'all',
      listen: { host: '127.0.0.1', port: 8090 },
      basePath: '',
      store: { kind: 'embedded', dataDir: resolve('.setpoint'), compact: false },
      console: true,
      kubernetesKinds: true,
      grantPlugins: false,
      watchLimits: { connections: 20_000, connectionsPerUser: 10_000 },
      tokenFile: undefined,
      slowRequestMs: 1000,
      webhooks: {
        services: new Map(),
        allowedHosts: [],
        deniedNetworks: undefined,
        allowedNetworks: ['127.0.0.0/8', '::1/128'],
      },
      allowedOrigins: [],
      tls: undefined,
      audit: undefined,
      encryption: undefined,
      plugins: undefined,
      pluginSettings: { env: {}, config: {} },
      reservedDomain: 'setpoint.dev',
      lease: 'setpoint-controllers',
      leaseDurationMs: 15_000,
      logLevel: 'info',
      logFormat: 'auto',
    })
  })

  it('reads every setting from the command line, the environment and the configuration file alike', () => {
    const settings = {
      role: 'apiserver',
      listen: '[::1]:0',
      'base-path': '/x/y/',
      store: 'etcd',
      'etcd-endpoints': 'a:2379,b:2379',
      'etcd-prefix': '/p/',
      'etcd-ca': 'ca.pem',
      'etcd-cert': 'cert.pem',
      'etcd-key': 'key.pem',
      'etcd-user': 'u',
      'etcd-password': '007',
      'max-watches': '50',
      'max-watches-per-user': '7',
      'token-file': 'tokens.yaml',
      'allowed-origin': 'https://a.example.com',
      'tls-cert': 'cert.pem',
      'tls-key': 'key.pem',
      'client-ca': 'ca.pem',
      'oidc-issuer': 'https://login.example.com/',
      'oidc-audience': 'setpoint',
      'oidc-ca': 'ca.pem',
      'oidc-username-claim': 'preferred_username',
      'oidc-username-prefix': 'corp:',
      'oidc-groups-claim': 'roles',
      'oidc-groups-prefix': 'corp/',
      'audit-log': 'audit.log',
      'audit-policy': 'policy.yaml',
      'audit-log-maxsize': '5',
      'audit-log-maxbackup': '0',
      'audit-log-maxage': '2',
      'audit-webhook': 'https://audit.example.com/hook/',
      'audit-webhook-token-file': 'audit.token',
      'audit-webhook-ca': 'ca.pem',
      plugin: 'one',
      'reserved-domain': 'example.com',
      lease: 'mine',
      'lease-duration': '30',
      'log-level': 'warn',
      'log-format': 'json',
      'slow-request-ms': '250',
      'webhook-service': 'shop/hooks=https://127.0.0.1:9443/',
      'webhook-allowed-host': '*.example.com',
      'webhook-denied-network': '10.0.0.0/8',
      'webhook-allowed-network': '10.1.2.0/24',
    }
    const auditPolicy = 'apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{ level: Metadata }]\n'
    const files = {
      'ca.pem': pem,
      'cert.pem': pem,
      'key.pem': key,
      'tokens.yaml': '[]',
      'policy.yaml': auditPolicy,
      'audit.token': 'secret\n',
    }
    const expected: ServeOptions = {
      role: 'apiserver',
      listen: { host: '::1', port: 0 },
      basePath: '/x/y',
      encryption: undefined,
      store: {
        kind: 'etcd',
        endpoints: ['https://a:2379', 'https://b:2379'],
        prefix: '/p',
        tls: {
          ca: { path: resolve('ca.pem'), text: pem },
          cert: { path: resolve('cert.pem'), text: pem },
          key: { path: resolve('key.pem'), text: key },
        },
        credentials: { username: 'u', password: '007' },
      },
      console: true,
      kubernetesKinds: true,
      grantPlugins: false,
      watchLimits: { connections: 50, connectionsPerUser: 7 },
      slowRequestMs: 250,
      webhooks: {
        services: new Map([['shop/hooks', 'https://127.0.0.1:9443']]),
        allowedHosts: ['*.example.com'],
        deniedNetworks: ['10.0.0.0/8'],
        allowedNetworks: ['10.1.2.0/24'],
      },
      allowedOrigins: ['https://a.example.com'],
      authentication: {
        tokenFile: { path: resolve('tokens.yaml'), text: '[]' },
        clientCa: { path: resolve('ca.pem'), text: pem },
        oidc: [
          {
            issuer: 'https://login.example.com/',
            audience: 'setpoint',
            caFile: resolve('ca.pem'),
            usernameClaim: 'preferred_username',
            usernamePrefix: 'corp:',
            groupsClaim: 'roles',
            groupsPrefix: 'corp/',
          },
        ],
      },
      tls: {
        cert: { path: resolve('cert.pem'), text: pem },
        key: { path: resolve('key.pem'), text: key },
      },
      audit: {
        policy: { path: resolve('policy.yaml'), text: auditPolicy },
        file: {
          path: resolve('audit.log'),
          limits: { bytes: 5 * 1024 * 1024, backups: 0, ageMs: 2 * 86_400_000 },
        },
        webhook: {
          url: 'https://audit.example.com/hook',
          token: { path: resolve('audit.token'), text: 'secret' },
          ca: pem,
        },
      },
      plugins: [folder('one')],
      pluginSettings: { env: {}, config: {} },
      reservedDomain: 'example.com',
      lease: 'mine',
      leaseDurationMs: 30_000,
      logLevel: 'warn',
      logFormat: 'json',
    }
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
    const env = Object.fromEntries(
      Object.entries(settings).map(([name, value]) => [
        `SETPOINT_${name.toUpperCase().replaceAll('-', '_')}`,
        value,
      ]),
    )
    const yaml = Object.entries(settings).map(([name, value]) => `${name}: '${value}'\n`)
    expect(serve(args, {}, files)).toEqual(expected)
    expect(serve([], env, files)).toEqual(expected)
    expect(serve(['--config', 'c.yaml'], {}, { ...files, 'c.yaml': yaml.join('') })).toEqual(expected)
    expect(serve([], { SETPOINT_CONFIG: 'c.yaml' }, { ...files, 'c.yaml': yaml.join('') })).toEqual(expected)
  })

  it('prefers the flag to the environment, and that to the file', () => {
    const files = { 'c.yaml': 'log-level: error\nplugin: [three]\n' }
    const env = { SETPOINT_LOG_LEVEL: 'warn', SETPOINT_PLUGIN: 'two' }
    const config = ['--config', 'c.yaml']
    expect(serve([...config, '--log-level', 'debug', '--plugin', 'one'], env, files)).toMatchObject({
      logLevel: 'debug',
      plugins: [folder('one')],
    })
    expect(serve(config, env, files)).toMatchObject({ logLevel: 'warn', plugins: [folder('two')] })
    expect(serve(config, {}, files)).toMatchObject({ logLevel: 'error', plugins: [folder('three')] })
  })

  it('treats an empty environment variable as unset', () => {
    expect(serve([], { SETPOINT_LOG_LEVEL: '', SETPOINT_ETCD_ENDPOINTS: '' })).toEqual(serve([]))
  })

  it('accepts a repeatable flag several times, and a list elsewhere', () => {
    const plugins = [folder('a'), folder('b')]
    expect(serve(['--plugin', 'a', '--plugin', 'b']).plugins).toEqual(plugins)
    expect(serve([], { SETPOINT_PLUGIN: 'a, b' }).plugins).toEqual(plugins)
    expect(serve(['--config', 'c'], {}, { c: 'plugin: [a, b]' }).plugins).toEqual(plugins)
    expect(serve(['--config', 'c'], {}, { c: 'plugin: a,b' }).plugins).toEqual([folder('a,b')])
  })

  it('uses the last value of a flag given twice', () => {
    expect(serve(['--log-level', 'debug', '--log-level=warn']).logLevel).toBe('warn')
  })

  it('takes true or false for a switch, and true without a value', () => {
    expect(serve(['--grant-plugins'])).toMatchObject({ grantPlugins: true })
    expect(serve(['--grant-plugins', '--listen', '127.0.0.1:0'])).toMatchObject({ grantPlugins: true })
    expect(serve(['--grant-plugins=false', '--kubernetes-kinds'])).toMatchObject({
      grantPlugins: false,
      console: true,
      kubernetesKinds: true,
    })
    expect(serve(['--kubernetes-kinds', 'false'])).toMatchObject({ kubernetesKinds: false })
    expect(refusal(['--grant-plugins=yes'])).toContain('true, false')
  })

  it('accepts origins as browsers send them, and domains of at least two labels', () => {
    const files = { t: '[]' }
    const accepted = ['https://a.example.com', 'http://localhost:3000', 'https://[::1]:8443', '*.example.com']
    const args = accepted.flatMap(origin => ['--allowed-origin', origin])
    expect(serve(['--token-file', 't', ...args], {}, files)).toMatchObject({ allowedOrigins: accepted })
    for (const [text, problem] of [
      ['https://a.example.com/', 'write https://a.example.com'],
      ['https://A.example.com:443', 'write https://a.example.com'],
      ['https://a.example.com/page', 'write https://a.example.com'],
      ['https://ann:secret@a.example.com', 'write https://a.example.com'],
      ['a.example.com', 'is not an origin'],
      ['file:///page.html', 'is not an origin'],
      ['null', 'is not an origin'],
      ['*', 'does not name the subdomains'],
      ['*.com', 'does not name the subdomains'],
      ['*.0.0.1', 'does not name the subdomains'],
      ['*.Example.com', 'does not name the subdomains'],
      ['*a.example.com', 'does not name the subdomains'],
      ['https://*.example.com', 'write *.example.com'],
    ] as const)
      expect(refusal(['--token-file', 't', '--allowed-origin', text], {}, files), text).toContain(problem)
  })

  it('listens on any loopback address, and on no other', () => {
    const accepted = ['127.0.0.1:0', '127.8.9.1:65535', 'localhost:80', '[::1]:8090', '[::ffff:127.0.0.1]:1']
    for (const address of accepted) expect(serve(['--listen', address])).toBeDefined()
    const refused = [
      '0.0.0.0:8090',
      '10.0.0.1:80',
      '[::]:8090',
      '[2001:db8::1]:8090',
      'example.com:80',
      '127.1:80',
    ]
    for (const address of refused) {
      expect(refusal(['--listen', address])).toMatch(/^--listen: .*not a loopback address.*authentication/)
    }
    expect(refusal([], { SETPOINT_LISTEN: '0.0.0.0:1' })).toMatch(
      /^SETPOINT_LISTEN: 0\.0\.0\.0:1 is not a loopback/,
    )
  })

  it.each([
    '8090',
    ':8090',
    '127.0.0.1',
    '127.0.0.1:',
    '127.0.0.1:65536',
    '127.0.0.1:x',
    '::1:8090',
    '[x]:1',
    '',
    'a b:1',
  ])('refuses to listen on %j, saying what an address is', address => {
    expect(refusal([`--listen=${address}`])).toMatch(/^--listen: ".*(HOST:PORT is accepted|65535|brackets)/)
  })

  it('accepts only base paths that need no escaping', () => {
    expect(serve(['--base-path', '/'])).toMatchObject({ basePath: '' })
    expect(serve(['--base-path', '/a-b/c.d'])).toMatchObject({ basePath: '/a-b/c.d' })
    for (const path of ['x', '', '//', '/a//b', '/a b', '/..', '/a/./b', '/%41', '/ä', '/a?b']) {
      expect(refusal([`--base-path=${path}`])).toContain('is not a path')
    }
  })
})

describe('setpoint dev', () => {
  const dev = (args: string[], env: Env = {}) =>
    parseCommandLine(['dev', ...args], env, path => {
      if (path.endsWith('package.json')) return '{}'
      throw new Error(`ENOENT: no such file or directory, open '${path}'`)
    })

  it('is a server with one plugin, a text log and an embedded store in the folder of the plugin', () => {
    const plugin = { kind: 'folder', path: resolve('pages'), label: resolve('pages') }
    expect(dev(['pages'])).toEqual({
      command: 'dev',
      plugin,
      options: {
        ...serve([]),
        plugins: [plugin],
        store: { kind: 'embedded', dataDir: resolve('pages/.setpoint'), compact: false },
        logFormat: 'text',
      },
      settings: expect.objectContaining({ 'log-level': { value: 'info', from: 'default' } }),
      warnings: [],
    })
    expect(dev([])).toMatchObject({ plugin: { path: resolve('.') } })
  })

  it('takes its own flags and ignores the environment of others', () => {
    const parsed = dev(['--listen', '127.0.0.1:0', '--data-dir', 'd'], {
      SETPOINT_LOG_FORMAT: 'json',
      SETPOINT_ROLE: 'controllers',
      SETPOINT_ETCD_ENDPOINTS: 'a:1',
    })
    expect(parsed).toMatchObject({
      options: {
        role: 'all',
        listen: { port: 0 },
        store: { kind: 'embedded', dataDir: resolve('d'), compact: false },
        logFormat: 'json',
      },
    })
  })

  it.each([
    [['--role', 'all'], "unknown option '--role'; see `setpoint dev --help`"],
    [['a', 'b'], 'too many arguments'],
    [['plugin.tgz'], '"plugin.tgz" is not the folder of a plugin'],
    [['--listen', '0.0.0.0:1'], 'is not a loopback address'],
  ])('refuses %j', (args, says) => {
    expect(() => dev(args)).toThrow(says)
    expect(() => dev(args)).toThrow(UsageError)
  })

  it.each(['plugin', 'etcd-endpoints', 'oidc'])('refuses %s in its file, which only serve has', key => {
    const read = (path: string) => (path === 'c.yaml' ? `${key}: a` : '{}')
    expect(() => parseCommandLine(['dev', '--config', 'c.yaml'], {}, read)).toThrow(
      `c.yaml:1: only setpoint serve has "${key}"; accepted: listen, `,
    )
  })
})

describe('the store', () => {
  it('is etcd as soon as there are endpoints', () => {
    expect(serve(['--etcd-endpoints', 'localhost:2379'])).toMatchObject({
      store: {
        kind: 'etcd',
        endpoints: ['http://localhost:2379'],
        prefix: '/setpoint',
        tls: {},
        credentials: undefined,
      },
    })
    expect(serve(['--config', 'c'], {}, { c: 'etcd-endpoints:\n  - http://[::1]:1\n  - b:2' })).toMatchObject(
      {
        store: { endpoints: ['http://[::1]:1', 'http://b:2'] },
      },
    )
  })

  it.each([
    [['--store', 'embedded', '--etcd-endpoints', 'a:1'], 'contradicts'],
    [['--etcd-endpoints', 'a:1', '--compact-store'], '--compact-store is for the embedded store'],
    [['--store', 'etcd'], 'needs --etcd-endpoints'],
    [['--etcd-prefix', '/x'], 'needs --etcd-endpoints'],
    [['--etcd-endpoints', ','], 'not an etcd endpoint'],
    [['--etcd-endpoints', 'a'], 'not an etcd endpoint'],
    [['--etcd-endpoints', 'a:1', '--etcd-user', 'u'], 'together or not at all'],
    [['--etcd-endpoints', 'a:1', '--etcd-password-file', 'text'], 'together or not at all'],
    [
      ['--etcd-endpoints', 'a:1', '--etcd-user', 'u', '--etcd-password', 'p', '--etcd-password-file', 'text'],
      '--etcd-password contradicts --etcd-password-file',
    ],
    [
      ['--etcd-endpoints', 'a:1', '--etcd-user', 'u', '--etcd-password-file', 'empty'],
      'must contain a password',
    ],
    [['--etcd-endpoints', 'a:1', '--etcd-key', 'k'], 'together or not at all'],
    [['--etcd-endpoints', 'a:1', '--etcd-ca', 'nowhere'], 'cannot be read'],
    [['--etcd-endpoints', 'a:1', '--etcd-ca', 'text'], 'not a PEM file'],
    [['--etcd-endpoints', 'a:1', '--etcd-ca', 'cut'], 'not a PEM file of whole certificates'],
    [['--etcd-endpoints', 'a:1', '--etcd-ca', 'key'], 'not a PEM file of whole certificates'],
    [['--etcd-endpoints', 'a:1', '--etcd-ca', 'false'], 'certificate 2 in it cannot be read'],
    [['--etcd-endpoints', 'a:1', '--etcd-cert', 'k', '--etcd-key', 'other'], 'cannot be used together'],
    [['--etcd-endpoints', 'a:1', '--etcd-cert', 'cut', '--etcd-key', 'key'], 'cannot be used together'],
    [['--etcd-endpoints', 'http://a:1', '--etcd-ca', 'k'], 'has no TLS'],
    [['--etcd-endpoints', 'http://a:1,https://b:1'], 'has no TLS'],
    [['--store', 'sqlite'], 'is not one of embedded, etcd'],
  ])('is refused for %j', (args, message) => {
    const files = {
      k: pem,
      key,
      other: other.key,
      text: 'hello',
      empty: '\n',
      cut: pem.slice(0, 300),
      false: `${pem}-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n`,
    }
    expect(refusal(args, {}, files)).toContain(message)
  })

  it('takes the password of its user from a file, without the line break at its end', () => {
    const args = ['--etcd-endpoints', 'a:1', '--etcd-user', 'u', '--etcd-password-file', 'file']
    expect(serve(args, {}, { file: ' a b \n' })).toMatchObject({
      store: { credentials: { username: 'u', password: ' a b ', passwordFile: { text: ' a b \n' } } },
    })
  })

  it('is refused without showing the password', () => {
    const args = ['--etcd-endpoints', 'a:1', '--etcd-password', 'secret']
    expect(refusal(args)).not.toContain('secret')
    expect(refusal(['--etcd-endpoints', 'a:1', '--etcd-password', '-secret'])).not.toContain('secret')
  })
})

describe('access', () => {
  const hash = 'a'.repeat(64)
  const entry = `- {user: u, groups: [g], sha256: ${hash}}\n`

  it('allows other addresses with a token file', () => {
    expect(refusal(['--listen', '0.0.0.0:1'])).toContain('give --token-file')
    const args = ['--listen', '0.0.0.0:1', '--token-file', 't']
    expect(serve(args, {}, { t: entry })).toMatchObject({
      listen: { host: '0.0.0.0', port: 1 },
      authentication: { tokenFile: { path: resolve('t'), text: entry }, clientCa: undefined, oidc: [] },
    })
  })

  it('allows other addresses with client certificates or an OpenID Connect issuer', () => {
    const files = { c: pem, k: key }
    const listen = ['--listen', '0.0.0.0:1']
    const tls = ['--tls-cert', 'c', '--tls-key', 'k']
    expect(serve([...listen, ...tls, '--client-ca', 'c'], {}, files)).toMatchObject({
      authentication: { clientCa: { path: resolve('c'), text: pem } },
    })
    const issuer = ['--oidc-issuer', 'https://a', '--oidc-audience', 'x']
    expect(serve([...listen, ...issuer])).toMatchObject({
      authentication: { oidc: [{ issuer: 'https://a' }] },
    })
  })

  it('refuses client certificates without TLS', () => {
    expect(refusal(['--client-ca', 'c'], {}, { c: pem })).toContain('--client-ca needs --tls-cert')
    expect(refusal(['--client-ca', 'c'], {}, { c: 'x' })).toContain('is not a PEM file')
  })

  it('prefixes the names of OpenID Connect users as Kubernetes does', () => {
    const issuer = ['--oidc-issuer', 'https://a', '--oidc-audience', 'x']
    const prefixWith = (...more: string[]) => {
      const options = serve([...issuer, ...more])
      return 'authentication' in options ? options.authentication?.oidc[0]?.usernamePrefix : undefined
    }
    expect(prefixWith()).toBe('https://a#')
    expect(prefixWith('--oidc-username-claim', 'email')).toBe('')
    expect(prefixWith('--oidc-username-claim', 'email', '--oidc-username-prefix', 'corp:')).toBe('corp:')
    expect(prefixWith('--oidc-username-prefix', '-')).toBe('')
  })

  it.each([
    [['--oidc-issuer', 'https://a'], 'https://a needs an audience'],
    [['--oidc-audience', 'x'], '--oidc-audience: needs --oidc-issuer'],
    [['--oidc-issuer', 'http://a', '--oidc-audience', 'x'], '"http://a" is not the URL of an issuer'],
    [['--oidc-issuer', 'https://a?b', '--oidc-audience', 'x'], 'is not the URL of an issuer'],
    [
      ['--oidc-issuer', 'https://a', '--oidc-audience', 'x', '--oidc-ca', 'none'],
      '--oidc-ca: "none" cannot be read',
    ],
  ])('refuses %j', (args, why) => {
    expect(refusal(args)).toContain(why)
  })

  it('takes several OpenID Connect issuers from the configuration file', () => {
    const yaml =
      'oidc:\n- {issuer: https://a, audience: x}\n- {issuer: https://b, audience: y, ca: c, username-claim: email}\n'
    expect(serve(['--config', 'f'], {}, { f: yaml, c: pem })).toMatchObject({
      authentication: {
        oidc: [
          {
            issuer: 'https://a',
            audience: 'x',
            usernameClaim: 'sub',
            groupsClaim: 'groups',
            groupsPrefix: '',
          },
          { issuer: 'https://b', audience: 'y', caFile: resolve('c'), usernamePrefix: '' },
        ],
      },
    })
  })

  it.each([
    ['oidc: {issuer: https://a}', 'f:1: oidc: a list of mappings is accepted'],
    ['oidc: [a]', 'f:1: oidc: a list of mappings is accepted'],
    ['oidc: [{audience: x}]', 'f:1: oidc[0]: needs issuer'],
    ['oidc: [{issuer: https://a}]', 'https://a needs an audience'],
    ['oidc: [{issuer: https://a, audience: [x]}]', 'f:1: oidc[0].audience: one text is accepted'],
    ['oidc: [{issuer: http://a, audience: x}]', 'f:1: oidc[0].issuer: "http://a" is not the URL'],
    [
      'oidc: [{issuer: https://a, audience: x, secret: y}]',
      'f:1: oidc[0]: unknown key "secret"; accepted: issuer,',
    ],
    [
      'oidc:\n- {issuer: https://a, audience: x}\n- {issuer: https://a, audience: y}',
      'https://a is there twice',
    ],
    ['oidc: []\noidc-audience: x', 'f:2: oidc-audience and f:1: oidc exclude each other'],
  ])('refuses the configuration file %j', (text, why) => {
    expect(refusal(['--config', 'f'], {}, { f: text })).toContain(why)
  })

  it.each([
    ['', 'is empty'],
    ['user: u', 'must be a list'],
    ['- u', '[0] must be a mapping'],
    [`${entry}- {user: u, groups: [g], sha256: xyz}`, '[1].sha256 must be 64 hexadecimal digits'],
    [`- {user: '', groups: [g], sha256: ${hash}}`, '[0].user must be a non-empty string'],
    [`- {user: u, groups: g, sha256: ${hash}}`, '[0].groups must be a list of strings'],
    [`- {user: u, groups: [g], sha256: ${hash}, token: secret}`, '[0] has an unknown key'],
    [entry + entry, '[1].sha256 is the same as [0].sha256'],
    ['- {user: u\n  secret', 'is not valid YAML'],
  ])('refuses a file of tokens that says %j, and names the place but no token', (text, why) => {
    const message = refusal(['--token-file', 't'], {}, { t: text })
    expect(message).toMatch(/^--token-file: "t" /)
    expect(message).toContain(why)
    expect(message).not.toContain('secret')
  })

  it('refuses an audit policy that is invalid, and names the place', () => {
    const args = ['--audit-log', 'a.log', '--audit-policy', 'p.yaml']
    const head = 'apiVersion: audit.k8s.io/v1\nkind: Policy\n'
    expect(refusal(args, {}, { 'p.yaml': `${head}rules: [{ levl: None }]` })).toBe(
      '--audit-policy: "p.yaml": unknown key levl in rules[0], did you mean level?',
    )
    expect(refusal(args)).toContain('--audit-policy: "p.yaml" cannot be read')
  })

  it('refuses options of an audit log that is not asked for', () => {
    const policy = { p: 'apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{ level: None }]' }
    expect(refusal(['--audit-policy', 'p'], {}, policy)).toBe(
      '--audit-policy needs --audit-log or --audit-webhook',
    )
    expect(refusal(['--audit-log-maxage', '1', '--audit-webhook', 'http://a'])).toBe(
      '--audit-log-maxage needs --audit-log',
    )
    expect(refusal(['--audit-webhook-ca', 'c', '--audit-log', 'a'], {}, { c: pem })).toBe(
      '--audit-webhook-ca needs --audit-webhook',
    )
    expect(refusal(['--audit-log', '-'])).toContain('standard output is for the address')
    expect(refusal(['--role', 'controllers', '--server', 'http://a', '--audit-log', 'a'])).toContain(
      '--audit-log has no effect with --role controllers',
    )
  })

  it('refuses a certificate without its key, and an invalid one', () => {
    expect(refusal(['--tls-cert', 'c'], {}, { c: pem })).toContain('--tls-key')
    const both = ['--tls-cert', 'c', '--tls-key', 'k']
    expect(refusal(both, {}, { c: pem, k: pem })).toContain('cannot be used together')
    expect(refusal(both, {}, { c: pem, k: other.key })).toContain('cannot be used together')
    expect(refusal(both, {}, { c: pem.slice(0, 300), k: key })).toContain('cannot be used together')
    expect(refusal([], { SETPOINT_TLS_KEY: 'k' }, { k: key })).toContain('only SETPOINT_TLS_KEY is given')
  })

  it('accepts `setpoint token` with a user and groups', () => {
    expect(parseCommandLine(['token', '--user', 'ci'], {})).toEqual({
      command: 'token',
      options: { user: { name: 'ci', groups: [] }, output: 'entry' },
    })
    expect(parseCommandLine(['token', '--user', 'ci', '--output', 'json'], {})).toMatchObject({
      options: { output: 'json' },
    })
    const toFile = ['token', '--user', 'ci', '--token-file', 'tokens.yaml']
    expect(parseCommandLine(toFile, {})).toMatchObject({ options: { file: 'tokens.yaml', output: 'token' } })
    expect(() => parseCommandLine([...toFile, '--output', 'entry'], {})).toThrow('exclude each other')
    const viewer = ['token', '--user', 'u', '--group', 'setpoint:viewers', '--group', 'g']
    expect(parseCommandLine(viewer, {})).toMatchObject({
      options: { user: { groups: ['setpoint:viewers', 'g'] } },
    })
    expect(() => parseCommandLine(['token'], {})).toThrow('needs --user NAME')
    expect(() => parseCommandLine(['token', '--user', 'u', '--listen', 'x:1'], {})).toThrow(
      "unknown option '--listen'; see `setpoint token --help`",
    )
    expect(() => parseCommandLine(['serve', '--user', 'u'], {})).toThrow("unknown option '--user'")
  })
})

describe('--role controllers', () => {
  it('works against a server and has no store of its own', () => {
    expect(serve(['--role', 'controllers', '--server', 'https://example.com:8090/x/'])).toEqual({
      role: 'controllers',
      server: 'https://example.com:8090/x',
      serverToken: undefined,
      serverCa: undefined,
      collector: true,
      plugins: undefined,
      pluginSettings: { env: {}, config: {} },
      reservedDomain: 'setpoint.dev',
      lease: 'setpoint-controllers',
      leaseDurationMs: 15_000,
      logLevel: 'info',
      logFormat: 'auto',
      healthListen: undefined,
    })
  })

  it.each(['', '- user: ann\n', 'tok\u0000en', 'schl\u00fcssel'])('refuses %j as a token', text => {
    const args = ['--role', 'controllers', '--server', 'http://a', '--server-token-file', 't']
    expect(refusal(args, {}, { t: text })).toMatch(/"t" is (empty|not one token)/)
    expect(serve(args, {}, { t: ' token\n' })).toMatchObject({ serverToken: { text: 'token' } })
  })

  it('serves its health at --health-listen, which is refused with an API', () => {
    const args = ['--role', 'controllers', '--server', 'http://a', '--health-listen', '0.0.0.0:8091']
    expect(serve(args)).toMatchObject({ healthListen: { host: '0.0.0.0', port: 8091 } })
    expect(refusal(['--health-listen', '127.0.0.1:8091'])).toMatch(
      /^--health-listen is accepted only with --role controllers/,
    )
  })

  it('leaves out the collector with --collector=false, which is refused with an API', () => {
    const args = ['--role', 'controllers', '--server', 'http://a']
    expect(serve([...args, '--collector=false'])).toMatchObject({ collector: false })
    expect(refusal(['--collector=false'])).toMatch(/^--collector is accepted only with --role controllers/)
  })

  it('needs --server, which other roles refuse', () => {
    expect(refusal(['--role', 'controllers'])).toContain('needs --server')
    expect(refusal(['--server', 'http://a'])).toBe(
      '--server is accepted only with --role controllers; the role is all',
    )
    expect(refusal(['--role=apiserver'], { SETPOINT_SERVER: 'http://a' })).toContain(
      'SETPOINT_SERVER is accepted only',
    )
    for (const url of ['a', 'ftp://a', 'http://a?b', 'http://u:p@a', 'http://']) {
      expect(refusal(['--role=controllers', `--server=${url}`])).toMatch(/^--server: .*URL/)
    }
  })

  it('accepts the name of a lease', () => {
    const controllers = ['--role', 'controllers', '--server', 'http://a']
    expect(serve([...controllers, '--lease', 'mine'])).toMatchObject({ lease: 'mine' })
    expect(refusal([...controllers, '--lease', 'Not a name'])).toMatch(/^--lease: /)
  })

  it("refuses a server's flags, but not what an image sets in the environment for every role", () => {
    const args = ['--role', 'controllers', '--server', 'http://a']
    expect(refusal([...args, '--data-dir', 'x'])).toContain(
      '--data-dir has no effect with --role controllers',
    )
    expect(serve(args, { SETPOINT_LISTEN: '0.0.0.0:8090', SETPOINT_DATA_DIR: '/data' })).toBeDefined()
  })
})

describe('a bad command line', () => {
  it('is refused for a flag that does not exist, also for one of a later version', () => {
    for (const name of ['--audit-webhook-config-file', '--audit-dynamic', '--x', '-x', '-l']) {
      expect(refusal([name, 'y'])).toBe(`unknown option '${name}'; see \`setpoint serve --help\``)
    }
    expect(refusal(['--listen-address=x'])).toContain("unknown option '--listen-address=x'")
    expect(refusal(['--lisen', 'x'])).toContain('(Did you mean --listen?)')
  })

  it('is refused for a flag without a value', () => {
    expect(refusal(['--listen'])).toContain("option '--listen <HOST:PORT>' argument missing")
    expect(refusal(['--listen', '--role', 'all'])).toContain('--listen needs a value')
    expect(serve(['--etcd-endpoints=a:1', '--etcd-user=u', '--etcd-password=-p'])).toMatchObject({
      store: { credentials: { username: 'u', password: '-p' } },
    })
  })

  it('is refused for a bad value, naming its source and the accepted values', () => {
    expect(refusal(['--log-level', 'loud'])).toBe(
      '--log-level: "loud" is not one of trace, debug, info, warn, error, silent',
    )
    expect(refusal([], { SETPOINT_ROLE: 'x' })).toBe(
      'SETPOINT_ROLE: "x" is not one of all, apiserver, controllers',
    )
    expect(refusal(['--reserved-domain', 'A_b'])).toContain('must be a DNS sub-domain')
    expect(refusal(['--data-dir='])).toBe('--data-dir: is empty: a directory is required')
  })

  it('is refused for a command that does not exist, and for arguments', () => {
    expect(() => parseCommandLine(['export', 'x'], {})).toThrow(
      "unknown command 'export'; see `setpoint --help`",
    )
    expect(() => parseCommandLine(['--listen', '127.0.0.1:1'], {})).toThrow("unknown option '--listen'")
    expect(refusal(['again'])).toContain("too many arguments for 'serve'")
    expect(refusal(['--', '--listen'])).toContain("too many arguments for 'serve'")
  })
})

describe('setpoint backup', () => {
  const origin = (argv: readonly string[], env = {}) => {
    const line = parseCommandLine(['backup', 'a', ...argv], env)
    return line.command === 'backup' ? line.options.origin : undefined
  }

  it('reads a server if one is named, also in the environment of a server with a store, or else the store', () => {
    const env = { SETPOINT_ETCD_ENDPOINTS: 'a:1', SETPOINT_SERVER: 'http://a' }
    expect(origin([], env)).toMatchObject({ kind: 'server', connection: { server: 'http://a' } })
    expect(origin(['--data-dir', 'x'], { SETPOINT_SERVER: 'http://a' })).toMatchObject({ kind: 'store' })
    expect(origin([])).toMatchObject({ kind: 'store', store: { kind: 'embedded' } })
    expect(() => origin(['--server', 'http://a', '--data-dir', 'x'])).toThrow(
      '--server and --data-dir exclude each other: give the server or its store',
    )
  })

  it('needs a file, and a restore one that it can read twice', () => {
    expect(() => parseCommandLine(['backup'], {})).toThrow("missing required argument 'file'")
    expect(() => parseCommandLine(['restore', '-'], {})).toThrow('restore reads its files twice')
  })
})

describe('the configuration file', () => {
  const config = (text: string) => refusal(['--config', 'c.yaml'], {}, { 'c.yaml': text })

  it('is refused for an unknown key, naming its line and the valid keys', () => {
    expect(config('# settings\nlisten: 127.0.0.1:1\n\n"colour": x\n')).toMatch(
      /^c\.yaml:4: unknown key "colour"; accepted: role, listen, .*, log-format, plugins, oidc$/,
    )
    expect(config('plugin:\n- a\n- {b: c}\nhelp: x')).toContain(
      'c.yaml:1: plugin: a list of texts is accepted',
    )
    expect(config('lisen: 127.0.0.1:1')).toBe('c.yaml:1: unknown key "lisen"; did you mean listen?')
    expect(config('plugin: [a,\n  b]\nconfig: other')).toContain('c.yaml:3: unknown key "config"')
  })

  it('has settings of plugins, with scalars as texts', () => {
    const yaml = 'plugins:\n  demo:\n    retries: 05\n    tls: {port: 1}\n  other:\n'
    expect(serve(['--config', 'c'], {}, { c: yaml }).pluginSettings.config).toEqual({
      demo: { retries: '05', tls: { port: '1' } },
      other: {},
    })
    expect(config('plugins: [a]')).toBe(
      'c.yaml:1: plugins: a mapping from plugins to their settings is accepted, not a list',
    )
    expect(config('plugins: {demo: x}')).toContain('plugins.demo: a mapping of settings is accepted')
  })

  it('is refused for a bad value, naming its line', () => {
    expect(config('\nlisten: 8090\n')).toMatch(/^c\.yaml:2: listen: "8090" is not an address/)
    expect(config('listen: [a]')).toBe('c.yaml:1: listen: one text is accepted, not a list')
    expect(config('plugin: {a: b}')).toBe('c.yaml:1: plugin: a list of texts is accepted, not a mapping')
    expect(config('plugin: []')).toContain('c.yaml:1: plugin: is empty')
    expect(config('data-dir:')).toContain('c.yaml:1: data-dir: is empty')
  })

  it('is refused if it is not a YAML mapping, or missing', () => {
    expect(config('a: [')).toMatch(/^c\.yaml:1: /)
    expect(config('role: all\nrole: all')).toMatch(/^c\.yaml:2: duplicated mapping key/)
    expect(config('- a')).toContain('a mapping from names to values is accepted, not a list')
    expect(config('role: all\n---\nrole: all')).toContain('one YAML document is accepted')
    expect(config('a: !!js/undefined x')).toMatch(/^c\.yaml:1: /)
    expect(refusal(['--config', 'gone'])).toMatch(/^--config: "gone" cannot be read: ENOENT/)
    expect(refusal([], { SETPOINT_CONFIG: 'gone' })).toMatch(/^SETPOINT_CONFIG: "gone" cannot be read/)
  })

  it('may be empty, and reads every scalar as text', () => {
    for (const text of ['', '# nothing\n', '---\n', '{}']) {
      expect(serve(['--config', 'c'], {}, { c: text })).toEqual(serve([]))
    }
    const c = 'etcd-endpoints: a:1\netcd-user: yes\netcd-password: 0123\n'
    expect(serve(['--config', 'c'], {}, { c })).toMatchObject({
      store: { credentials: { username: 'yes', password: '0123' } },
    })
  })
})

describe('help and version', () => {
  it('of serve begins with examples, and has every flag in the part of its area', () => {
    const help = parse(['--help'])
    if (help.command !== 'help') throw new Error('no help')
    const { text } = help
    const parts = text.split(/\n(?=[A-Z][^\n]*:\n)/).map(part => ({
      title: part.slice(0, part.indexOf(':')),
      flags: [...part.matchAll(/(?<=\n {2}--)[a-z-]+/g)].map(([flag]) => flag),
    }))
    expect(parts.map(({ title }) => title)).toEqual([
      ...['Usage', 'Examples', 'Options', ...areas.map(({ title }) => title)],
    ])
    const partOf = (flag: string) => parts.find(({ flags }) => flags.includes(flag))?.title
    expect(partOf('listen')).toBe('What runs, and where')
    expect(partOf('collector')).toBe('Controllers in a process of their own')
    expect(partOf('etcd-password-file')).toBe('Store')
    expect(parts.flatMap(({ flags }) => flags).sort()).toEqual(
      ['version', ...flagsOf('serve').map(({ name }) => name)].sort(),
    )
  })

  it('lists the commands without any argument and with --help', () => {
    const help = parseCommandLine([], {})
    expect(help).toEqual(parseCommandLine(['--help'], {}))
    expect(help).toEqual(parseCommandLine(['-h'], {}))
    expect(help).toMatchObject({ command: 'help', text: expect.stringContaining('run the control plane') })
  })

  it.each([
    ['serve', true],
    ['dev', true],
    ['token', false],
    ['kubeconfig', false],
    ['service-account-token', false],
    ['status', true],
    ['check', true],
    ['purge', true],
    ['backup', true],
    ['restore', true],
    ['verify', false],
    ['reencrypt', true],
  ])('of %s mentions the configuration file if the command reads it: %j', (command, reads) => {
    const help = parseCommandLine([command, '--help'], {})
    if (help.command !== 'help') throw new Error('did not return help')
    expect(help.text.includes('else from the configuration file')).toBe(reads)
  })

  it.each(['serve', 'dev'])(
    'of %s has an example of a configuration file that the command accepts',
    command => {
      const help = parseCommandLine([command, '--help'], {})
      if (help.command !== 'help') throw new Error('did not return help')
      const example = help.text.slice(help.text.lastIndexOf(':\n\n') + 3).replace(/^ {2}/gm, '')
      expect(example).toMatch(/^listen: /)
      const read = (path: string) => (path === 'c.yaml' ? example : '{}')
      expect(parseCommandLine([command, '--config', 'c.yaml'], {}, read)).toMatchObject({ command })
    },
  )

  it.each([
    ['dev', 'default: .setpoint in the folder of the plugin, SETPOINT_DATA_DIR'],
    ['dev', 'default: text, SETPOINT_LOG_FORMAT'],
    ['kubeconfig', "--listen <HOST:PORT> the server's --listen (default: 127.0.0.1:8090, SETPOINT_LISTEN)"],
  ])('of %s says what a flag means there: %s', (command, text) => {
    const help = parseCommandLine([command, '--help'], {})
    if (help.command !== 'help') throw new Error('did not return help')
    expect(help.text.replace(/\s+/g, ' ')).toContain(text)
  })

  it('shows every flag of serve with its default and its name in the environment', () => {
    const help = parse(['--help'])
    if (help.command !== 'help') throw new Error('did not return help')
    for (const flag of flagsOf('serve')) {
      expect(help.text).toContain(`--${flag.name}`)
      expect(help.text).toContain(environmentName(flag, 'serve'))
      if (flag.default !== undefined) expect(help.text).toContain(`default: ${flag.default}`)
    }
    expect(help.text.replace(/\s+/g, ' ')).toContain(
      'prefer --etcd-password-file, the environment or the configuration file (SETPOINT_ETCD_PASSWORD)',
    )
  })

  it('takes precedence over errors in other settings', () => {
    expect(parse(['--listen', 'x', '--help']).command).toBe('help')
    expect(parse(['--version'], { SETPOINT_ROLE: 'x' })).toEqual({
      command: 'help',
      text: expect.stringMatching(/^setpoint \d+\.\d+\.\d+ \(Node v\d+\.\d+\.\d+\)\n$/),
    })
  })
})

it('takes no variable of the server for another setting of another command', () => {
  const ofServer = { SETPOINT_TOKEN_FILE: 'users.yaml', SETPOINT_LISTEN: '127.0.0.1:8', SETPOINT_ROLE: 'all' }
  const files: Record<string, string> = { 'users.yaml': '- user: ann\n', own: 'secret' }
  const read = (command: string, env: Env) =>
    parseCommandLine([command], { ...ofServer, ...env }, path => files[path] ?? '')
  expect(read('kubeconfig', {})).toMatchObject({
    options: { token: undefined, server: 'http://127.0.0.1:8' },
  })
  const env = { SETPOINT_KUBECONFIG_TOKEN_FILE: 'own', SETPOINT_SERVER: 'http://a' }
  expect(read('kubeconfig', env)).toMatchObject({ options: { token: 'secret', server: 'http://a' } })
  expect(read('token', { SETPOINT_TOKEN_USER: 'ann', SETPOINT_TOKEN_OUTPUT: 'json' })).toMatchObject({
    options: { user: { name: 'ann' }, output: 'json' },
  })
})

it('reads the commands about the store with the flags and variables of the server', () => {
  const read = (args: string[], env: Env = {}) => parseCommandLine(args, env)
  const env = { SETPOINT_ETCD_ENDPOINTS: 'a:1', SETPOINT_ETCD_PREFIX: '/p', SETPOINT_ROLE: 'apiserver' }
  const store = { kind: 'etcd', endpoints: ['http://a:1'], prefix: '/p' }
  expect(read(['check'], env)).toMatchObject({
    options: { store, repair: false, dropSigningKeys: false, output: 'text' },
  })
  // A switch takes no value, so the group after it is the group.
  expect(read(['purge', '--yes', 'a.example.com', '--data-dir', '/d'])).toMatchObject({
    options: { store: { kind: 'embedded', dataDir: '/d' }, group: 'a.example.com', yes: true, dryRun: false },
  })
  expect(read(['status', '--server', 'http://a', '--server', 'http://b'])).toMatchObject({
    options: { servers: ['http://a', 'http://b'], lease: 'setpoint-controllers' },
  })
  expect(read(['status'], { SETPOINT_SERVER: 'http://c' })).toMatchObject({
    options: { servers: ['http://c'] },
  })
  for (const args of [
    ['purge'],
    ['purge', 'a.b', '--yes', '--dry-run'],
    ['check', 'x'],
    ['verify', 'x', '--config', 'c'],
  ])
    expect(() => read(args)).toThrow(UsageError)
})

describe.each([
  ['check', ['check']],
  ['purge', ['purge', 'a.example.com']],
  ['restore', ['restore', 'a.backup']],
  ['backup', ['backup', 'a.backup']],
  ['reencrypt', ['reencrypt']],
])('%s with the configuration file of the server', (_command, args) => {
  const encryption = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [{resources: [secrets], providers: [{identity: {}}]}]
`
  const text = `listen: 0.0.0.0:8090
tls-cert: /only/for/the/server.pem
plugin: [./not-here]
plugins: {demo: {greeting: Hello}}
etcd-endpoints: [a:1, b:2]
etcd-prefix: /p
etcd-user: ann
etcd-password: secret
encryption-provider-config: e
`
  const files: Record<string, string> = { c: text, e: encryption }
  const read = (more: string[], env: Env = {}) =>
    parseCommandLine([...args, '--config', 'c', ...more], env, path => {
      const found = files[path]
      if (found === undefined) throw new Error(`${path} was read`)
      return found
    })
  const storeOf = (more: string[], env: Env = {}) => {
    const { options } = { options: undefined, ...read(more, env) }
    const { store, origin } = { store: undefined, origin: undefined, ...Object(options) }
    return store ?? Object(origin).store
  }

  it('takes its store, and reads no file that only a server needs', () => {
    expect(storeOf([])).toMatchObject({
      kind: 'etcd',
      endpoints: ['http://a:1', 'http://b:2'],
      prefix: '/p',
      credentials: { username: 'ann', password: 'secret' },
    })
    expect(storeOf(['--etcd-prefix', '/q'], { SETPOINT_ETCD_PREFIX: '/r' })).toMatchObject({ prefix: '/q' })
    expect(storeOf([], { SETPOINT_ETCD_PREFIX: '/r' })).toMatchObject({ prefix: '/r' })
  })

  it('refuses a folder on the command line beside etcd in the file', () => {
    expect(() => read(['--data-dir', '/d'])).toThrow(
      '--data-dir is for the embedded store, and c:5: etcd-endpoints names etcd: give one of them',
    )
  })

  it('refuses a key that the server would refuse', () => {
    files.c = `${text}force: true
`
    expect(() => read([])).toThrow('c:10: unknown key "force"')
    files.c = text
  })
})

it('takes the settings that a purge and a status share with the server from its configuration file', () => {
  const read = (args: string[]) =>
    parseCommandLine([...args, '--config', 'c'], {}, () => 'reserved-domain: example.org\nlease: mine\n')
  expect(read(['status'])).toMatchObject({
    options: { reservedDomain: 'example.org', lease: 'mine', servers: ['http://127.0.0.1:8090'] },
  })
  expect(() => read(['purge', 'a.example.org', '--data-dir', '/d'])).toThrow('is built in')
})

it('warns of unknown environment variables, except those that Kubernetes sets for a Service', () => {
  const parsed = parse([], {
    HOME: '/',
    SETPOINT_LISTEN: '127.0.0.1:1',
    SETPOINT_DATADIR: 'x',
    SETPOINT_SERVICE_HOST: '10.0.0.1',
    SETPOINT_SERVICE_PORT_HTTP: '8090',
    SETPOINT_PORT: 'tcp://10.0.0.1:8090',
    SETPOINT_PORT_8090_TCP_ADDR: '10.0.0.1',
    SETPOINT_ETCD_PORT_2379_TCP: 'tcp://10.0.0.1:2379',
  })
  expect(parsed).toMatchObject({
    warnings: ['the environment variable SETPOINT_DATADIR is not a setting and has no effect'],
  })
})

it('accepts every default as a given value', () => {
  expect(serve(['--listen', flags.listen.default, '--data-dir', flags.dataDir.default])).toEqual(serve([]))
})

it('tells every setting in force with its source, and no secret', () => {
  const settings = (argv: readonly string[], env = {}, files: Readonly<Record<string, string>> = {}) => {
    const commandLine = parseCommandLine(['serve', ...argv], env, path => files[path] ?? '')
    if (commandLine.command !== 'serve') throw new Error('it is another command')
    return commandLine.settings
  }
  const env = { SETPOINT_ETCD_PASSWORD: 'hidden', SETPOINT_ETCD_ENDPOINTS: 'a:1,b:2' }
  const files = { c: 'etcd-user: ann\ntoken-file: t\n', t: '[] # hidden' }
  const inForce = settings(['--config', 'c', '--listen', '127.0.0.1:1'], env, files)
  expect(inForce).toMatchObject({
    listen: { value: '127.0.0.1:1', from: '--listen' },
    'etcd-endpoints': { value: ['a:1', 'b:2'], from: 'SETPOINT_ETCD_ENDPOINTS' },
    'etcd-password': { value: '[secret]', from: 'SETPOINT_ETCD_PASSWORD' },
    'etcd-user': { value: 'ann', from: 'c:1: etcd-user' },
    'token-file': { value: 't', from: 'c:2: token-file' },
    'base-path': { value: '/', from: 'default' },
  })
  expect(JSON.stringify(inForce)).not.toContain('hidden')
})
