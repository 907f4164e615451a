import { builtInGroups } from '../security/access.ts'
import { watchLimitDefaults } from '../watch/watch-limits.ts'
import {
  oneOf,
  type ReadFile,
  readAuthorities,
  readAuthoritiesFile,
  readBasePath,
  readCount,
  readDirectory,
  readDomain,
  readEtcdEndpoint,
  readKeyPrefix,
  readLeaseName,
  readListenAddress,
  readNonEmpty,
  readPemFile,
  readPluginDirectory,
  readSecretFile,
  readServerUrl,
  readTextFile,
  readTokenFile,
} from './flags-values.ts'

/**
 * How often a flag has a value:
 *
 *     value       one; the last one given counts
 *     list        several, in one text with commas between them; in the configuration file also a YAML list
 *     repeatable  several: the flag is given again for each. In the environment commas stand between them, in the
 *                 configuration file they are a YAML list
 *     switch      none: it is given or not, on the command line only
 */
export type FlagKind = 'value' | 'list' | 'repeatable' | 'switch'

export type CommandName = 'serve' | 'token'

/** One row of the table that the command line, the environment, the configuration file and the help are read from. */
export interface Flag {
  /** Without dashes; also the key in the configuration file. */
  readonly name: string
  readonly kind: FlagKind
  /** What stands for the value in the help. */
  readonly placeholder?: string
  /** As it would be given. */
  readonly default?: string
  readonly description: string
  /** The commands that take it; without any, what `setpoint` itself takes before or after every command. */
  readonly commands: readonly CommandName[]
}

/** A flag whose values are of type T. `read` gets one text and throws UsageError for a bad one. */
export interface ValueFlag<T> extends Flag {
  read(text: string, readFile: ReadFile): T
}

/** A flag that always has a value. */
export interface DefaultedFlag<T> extends ValueFlag<T> {
  readonly default: string
}

const serve: readonly CommandName[] = ['serve']
const token: readonly CommandName[] = ['token']

function value<T>(flag: Omit<DefaultedFlag<T>, 'kind' | 'commands'>): DefaultedFlag<T>
function value<T>(flag: Omit<ValueFlag<T>, 'kind' | 'commands'>): ValueFlag<T>
function value<T>(flag: Omit<ValueFlag<T>, 'kind' | 'commands'>): ValueFlag<T> {
  return { ...flag, kind: 'value', commands: serve }
}

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Every flag there is. The order is that of the help. */
export const flags = Object.freeze({
  role: value({
    name: 'role',
    placeholder: 'all|apiserver|controllers',
    default: 'all',
    description: 'API and controllers in one process, only the API, or only the controllers of the plugins',
    read: oneOf('all', 'apiserver', 'controllers'),
  }),
  listen: value({
    name: 'listen',
    placeholder: 'HOST:PORT',
    default: '127.0.0.1:8090',
    description: 'where to serve; port 0 picks a free one, an IPv6 address stands in brackets',
    read: readListenAddress,
  }),
  basePath: value({
    name: 'base-path',
    placeholder: 'PATH',
    default: '/',
    description: 'what every path of the API begins with',
    read: readBasePath,
  }),
  server: value({
    name: 'server',
    placeholder: 'URL',
    description: 'the API server that the controllers work against; with --role controllers, and only there',
    read: readServerUrl,
  }),
  serverTokenFile: value({
    name: 'server-token-file',
    placeholder: 'FILE',
    description:
      'the token that the controllers show to that server, in a file of its own; read again when it changes',
    read: readSecretFile,
  }),
  serverCa: value({
    name: 'server-ca',
    placeholder: 'FILE',
    description: 'the authority (PEM) that signed the certificate of that server',
    read: readAuthorities,
  }),
  tokenFile: value({
    name: 'token-file',
    placeholder: 'FILE',
    description:
      'who may call: a YAML list of {user, groups, sha256}, read again when it changes; `setpoint token` makes entries. Without it only this machine is served',
    read: readTokenFile,
  }),
  tlsCert: value({
    name: 'tls-cert',
    placeholder: 'FILE',
    description: 'the certificate (PEM) to serve HTTPS with, read again when it is renewed; needs --tls-key',
    read: readPemFile,
  }),
  tlsKey: value({
    name: 'tls-key',
    placeholder: 'FILE',
    description: 'the private key (PEM) of --tls-cert',
    read: readPemFile,
  }),
  healthListen: value({
    name: 'health-listen',
    placeholder: 'HOST:PORT',
    description:
      'where to answer /livez, /readyz and /metrics, to everybody and without TLS; with --role controllers, which serves nothing else',
    read: readListenAddress,
  }),
  store: value({
    name: 'store',
    placeholder: 'embedded|etcd',
    description: 'where objects are kept; etcd as soon as --etcd-endpoints is given, else embedded',
    read: oneOf('embedded', 'etcd'),
  }),
  dataDir: value({
    name: 'data-dir',
    placeholder: 'DIR',
    default: './.setpoint',
    description: 'the directory of the embedded store',
    read: readDirectory,
  }),
  etcdEndpoints: {
    name: 'etcd-endpoints',
    kind: 'list',
    placeholder: 'HOST:PORT,...',
    description: 'the members of the etcd cluster, with commas between them',
    commands: serve,
    read: readEtcdEndpoint,
  } satisfies ValueFlag<string>,
  etcdPrefix: value({
    name: 'etcd-prefix',
    placeholder: 'PREFIX',
    default: '/setpoint',
    description: 'what every key in etcd begins with',
    read: readKeyPrefix,
  }),
  etcdCa: value({
    name: 'etcd-ca',
    placeholder: 'FILE',
    description: 'the authority (PEM) that signed the certificates of etcd, read again when it is renewed',
    read: readAuthoritiesFile,
  }),
  etcdCert: value({
    name: 'etcd-cert',
    placeholder: 'FILE',
    description: 'the certificate (PEM) to show to etcd, read again when it is renewed; needs --etcd-key',
    read: readPemFile,
  }),
  etcdKey: value({
    name: 'etcd-key',
    placeholder: 'FILE',
    description: 'the private key (PEM) of --etcd-cert',
    read: readPemFile,
  }),
  etcdUser: value({
    name: 'etcd-user',
    placeholder: 'NAME',
    description: 'the user to log in to etcd as; needs --etcd-password',
    read: readNonEmpty,
  }),
  etcdPassword: value({
    name: 'etcd-password',
    placeholder: 'PASSWORD',
    description:
      'the password of --etcd-user. Everybody on this machine can read a command line: better in the environment or the configuration file',
    read: readNonEmpty,
  }),
  plugin: {
    name: 'plugin',
    kind: 'repeatable',
    placeholder: 'DIR',
    description: 'a plugin to load; default: every folder of plugins/ of the installation',
    commands: serve,
    read: readPluginDirectory,
  } satisfies ValueFlag<string>,
  maxWatches: value({
    name: 'max-watches',
    placeholder: 'COUNT',
    default: String(watchLimitDefaults.connections),
    description: 'connections that may watch at a time; one more is answered with 429',
    read: readCount,
  }),
  maxWatchesPerUser: value({
    name: 'max-watches-per-user',
    placeholder: 'COUNT',
    default: String(watchLimitDefaults.connectionsPerUser),
    description:
      'connections of one user that may watch at a time; without authentication everybody is one user',
    read: readCount,
  }),
  reservedDomain: value({
    name: 'reserved-domain',
    placeholder: 'DOMAIN',
    default: 'setpoint.dev',
    description: 'the domain whose groups and labels belong to Setpoint itself',
    read: readDomain,
  }),
  lease: value({
    name: 'lease',
    placeholder: 'NAME',
    default: 'setpoint-controllers',
    description:
      'the lease by which the processes that run controllers, on etcd or with --role controllers, choose the one that works; processes with other plugins take another',
    read: readLeaseName,
  }),
  logLevel: value({
    name: 'log-level',
    placeholder: logLevels.join('|'),
    default: 'info',
    description: 'the least severe log lines to write to standard error',
    read: oneOf(...logLevels),
  }),
  user: {
    name: 'user',
    kind: 'value',
    placeholder: 'NAME',
    description: 'whose token it is',
    commands: token,
    read: readNonEmpty,
  } satisfies ValueFlag<string>,
  group: {
    name: 'group',
    kind: 'repeatable',
    placeholder: 'GROUP',
    default: builtInGroups.admins,
    description: `what the user may do: ${builtInGroups.admins} everything, ${builtInGroups.viewers} get, list and watch`,
    commands: token,
    read: readNonEmpty,
  } satisfies ValueFlag<string>,
  config: value({
    name: 'config',
    placeholder: 'FILE',
    description: 'a YAML file of settings; its keys are the names of these flags without dashes in front',
    read: readTextFile,
  }),
  help: { name: 'help', kind: 'switch', description: 'print this text', commands: [] } satisfies Flag,
  version: {
    name: 'version',
    kind: 'switch',
    description: 'print the version',
    commands: [],
  } satisfies Flag,
})

export const allFlags: readonly Flag[] = Object.freeze(Object.values(flags))

/** The flags that a command takes, the general ones last. */
export function flagsOf(command: CommandName): readonly Flag[] {
  return allFlags.filter(({ commands }) => commands.length === 0 || commands.includes(command))
}

/** Its name in the environment: `--data-dir` is `SETPOINT_DATA_DIR`. */
export function environmentName(flag: Flag): string {
  return `SETPOINT_${flag.name.toUpperCase().replaceAll('-', '_')}`
}
