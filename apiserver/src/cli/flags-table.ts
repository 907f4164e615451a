import type { PluginSource } from '../plugins/index.ts'
import { builtInGroups } from '../security/access.ts'
import { watchLimitDefaults } from '../watch/watch-limits.ts'
import { readPluginSource } from './flags-plugin.ts'
import {
  oneOf,
  type ReadFile,
  readAllowedOrigin,
  readAuditLog,
  readAuditPolicy,
  readAuthorities,
  readAuthoritiesFile,
  readBasePath,
  readCount,
  readDirectory,
  readDomain,
  readEtcdEndpoint,
  readIssuer,
  readKeyPrefix,
  readLeaseName,
  readLimit,
  readListenAddress,
  readNonEmpty,
  readOwnTokenFile,
  readPemFile,
  readSecretFile,
  readServerUrl,
  readTextFile,
  readTokenFile,
} from './flags-values.ts'

/**
 * How many values a flag has:
 *
 *     value       one; the last one given counts
 *     list        several in one text, separated by commas; also a YAML list in the configuration file
 *     repeatable  several: the flag is repeated. Separated by commas in the environment, a YAML list in the
 *                 configuration file
 */
export type FlagKind = 'value' | 'list' | 'repeatable'

export type CommandName = 'serve' | 'dev' | 'token' | 'kubeconfig'

/** One row of the table of flags. The command line, the environment, the configuration file and the help all use it. */
export interface Flag {
  /** Without dashes; also the key in the configuration file. */
  readonly name: string
  readonly kind: FlagKind
  /** Stands for the value in the help. */
  readonly placeholder: string
  /** The default as text. */
  readonly default?: string
  /** Its value when it is given without one. Without this it needs a value. */
  readonly bare?: string
  readonly description: string
  /** The commands that take the flag. */
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
const serveAndDev: readonly CommandName[] = ['serve', 'dev']
const token: readonly CommandName[] = ['token']
const kubeconfig: readonly CommandName[] = ['kubeconfig']
const serveAndKubeconfig: readonly CommandName[] = ['serve', 'kubeconfig']
const serving: readonly CommandName[] = ['serve', 'dev', 'kubeconfig']

function value<T>(
  flag: Omit<DefaultedFlag<T>, 'kind' | 'commands'>,
  commands?: readonly CommandName[],
): DefaultedFlag<T>
function value<T>(
  flag: Omit<ValueFlag<T>, 'kind' | 'commands'>,
  commands?: readonly CommandName[],
): ValueFlag<T>
function value<T>(flag: Omit<ValueFlag<T>, 'kind' | 'commands'>, commands = serve): ValueFlag<T> {
  return { ...flag, kind: 'value', commands }
}

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]
export type LogFormat = 'auto' | 'json' | 'text'
export type TokenOutput = 'entry' | 'token' | 'json'

/** Every flag there is. The order is that of the help. */
export const flags = Object.freeze({
  role: value({
    name: 'role',
    placeholder: 'all|apiserver|controllers',
    default: 'all',
    description:
      'run API and controllers in one process, only the API, or only the controllers of the plugins',
    read: oneOf('all', 'apiserver', 'controllers'),
  }),
  listen: value(
    {
      name: 'listen',
      placeholder: 'HOST:PORT',
      default: '127.0.0.1:8090',
      description: 'address to serve on; port 0 picks a free port; write an IPv6 address in brackets',
      read: readListenAddress,
    },
    serving,
  ),
  basePath: value(
    {
      name: 'base-path',
      placeholder: 'PATH',
      default: '/',
      description: 'prefix of every path of the API',
      read: readBasePath,
    },
    serveAndKubeconfig,
  ),
  server: value({
    name: 'server',
    placeholder: 'URL',
    description: 'API server for the controllers; only with --role controllers',
    read: readServerUrl,
  }),
  kubeconfigServer: value(
    {
      name: 'server',
      placeholder: 'URL',
      description: 'URL of the API with its base path; by default that of --listen and --base-path',
      read: readServerUrl,
    },
    kubeconfig,
  ),
  serverTokenFile: value({
    name: 'server-token-file',
    placeholder: 'FILE',
    description: 'file with the bearer token for --server; reloaded when it changes',
    read: readSecretFile,
  }),
  serverCa: value(
    {
      name: 'server-ca',
      placeholder: 'FILE',
      description: "CA certificates (PEM) for the API server's certificate",
      read: readAuthorities,
    },
    serveAndKubeconfig,
  ),
  token: value(
    {
      name: 'token',
      placeholder: 'TOKEN',
      description:
        'bearer token of the user. Every user of this machine can read the command line: prefer --token-file',
      read: readNonEmpty,
    },
    kubeconfig,
  ),
  clientCertificate: value(
    {
      name: 'client-certificate',
      placeholder: 'FILE',
      description: 'certificate (PEM) of the user, see --client-ca of `setpoint serve`; needs --client-key',
      read: readPemFile,
    },
    kubeconfig,
  ),
  clientKey: value(
    {
      name: 'client-key',
      placeholder: 'FILE',
      description: 'private key (PEM) of --client-certificate',
      read: readPemFile,
    },
    kubeconfig,
  ),
  kubeconfigTokenFile: value(
    {
      name: 'token-file',
      placeholder: 'FILE',
      description: 'file with the bearer token of the user',
      read: readOwnTokenFile,
    },
    kubeconfig,
  ),
  tokenFile: value({
    name: 'token-file',
    placeholder: 'FILE',
    description:
      'bearer tokens that are accepted: a YAML list of {user, groups, sha256}, as `setpoint token` prints; reloaded when it changes. Without any way to authenticate, the server accepts local callers only',
    read: readTokenFile,
  }),
  allowedOrigin: {
    name: 'allowed-origin',
    kind: 'repeatable',
    placeholder: 'ORIGIN',
    description:
      'origin whose pages may call from browsers, such as https://app.example.com, or *.example.com for those of every subdomain; without authentication only pages of this machine may call',
    commands: serve,
    read: readAllowedOrigin,
  } satisfies ValueFlag<string>,
  tlsCert: value(
    {
      name: 'tls-cert',
      placeholder: 'FILE',
      description: 'certificate (PEM) for HTTPS; reloaded when it changes; needs --tls-key',
      read: readPemFile,
    },
    serveAndKubeconfig,
  ),
  tlsKey: value({
    name: 'tls-key',
    placeholder: 'FILE',
    description: 'private key (PEM) of --tls-cert',
    read: readPemFile,
  }),
  clientCa: value({
    name: 'client-ca',
    placeholder: 'FILE',
    description:
      "CA certificates (PEM) for clients' certificates, whose common name is the user and whose organizations are the groups; reloaded when they change; needs --tls-cert",
    read: readAuthoritiesFile,
  }),
  oidcIssuer: value({
    name: 'oidc-issuer',
    placeholder: 'URL',
    description:
      'OpenID Connect issuer whose ID tokens are accepted; `oidc` in the configuration file takes several',
    read: readIssuer,
  }),
  oidcAudience: value({
    name: 'oidc-audience',
    placeholder: 'AUDIENCE',
    description: 'audience that ID tokens must be for: the client ID; required with --oidc-issuer',
    read: readNonEmpty,
  }),
  oidcCa: value({
    name: 'oidc-ca',
    placeholder: 'FILE',
    description:
      "CA certificates (PEM) for the issuer's certificate, read whenever its keys are fetched; by default those of the system",
    read: readAuthoritiesFile,
  }),
  oidcUsernameClaim: value({
    name: 'oidc-username-claim',
    placeholder: 'CLAIM',
    default: 'sub',
    description: 'claim that names the user; `email` is refused if `email_verified` is false',
    read: readNonEmpty,
  }),
  oidcUsernamePrefix: value({
    name: 'oidc-username-prefix',
    placeholder: 'PREFIX',
    description:
      "precedes the user's name; `-` for none; by default the issuer and `#`, or none for the claim `email`",
    read: readNonEmpty,
  }),
  oidcGroupsClaim: value({
    name: 'oidc-groups-claim',
    placeholder: 'CLAIM',
    default: 'groups',
    description: 'claim that lists the groups of the user',
    read: readNonEmpty,
  }),
  oidcGroupsPrefix: value({
    name: 'oidc-groups-prefix',
    placeholder: 'PREFIX',
    description: 'precedes the name of each group; by default none',
    read: readNonEmpty,
  }),
  auditLog: value({
    name: 'audit-log',
    placeholder: 'FILE',
    description:
      'file for the audit log: one event of audit.k8s.io/v1 as JSON on each line; servers need one each',
    read: readAuditLog,
  }),
  auditPolicy: value({
    name: 'audit-policy',
    placeholder: 'FILE',
    description:
      'Policy of audit.k8s.io/v1: which requests are audited, at which level; reloaded when it changes. Without it, the metadata of every request',
    read: readAuditPolicy,
  }),
  auditLogMaxSize: value({
    name: 'audit-log-maxsize',
    placeholder: 'MEGABYTES',
    default: '100',
    description: 'size at which the audit log is rotated',
    read: readCount,
  }),
  auditLogMaxBackup: value({
    name: 'audit-log-maxbackup',
    placeholder: 'COUNT',
    default: '10',
    description: 'most rotated files that are kept; 0 for all',
    read: readLimit,
  }),
  auditLogMaxAge: value({
    name: 'audit-log-maxage',
    placeholder: 'DAYS',
    default: '0',
    description: 'days that rotated files are kept; 0 for ever',
    read: readLimit,
  }),
  auditWebhook: value({
    name: 'audit-webhook',
    placeholder: 'URL',
    description: 'URL that gets audit events in batches: POST of an EventList of audit.k8s.io/v1',
    read: readServerUrl,
  }),
  auditWebhookTokenFile: value({
    name: 'audit-webhook-token-file',
    placeholder: 'FILE',
    description: 'file with the bearer token for --audit-webhook; read again for each batch',
    read: readSecretFile,
  }),
  auditWebhookCa: value({
    name: 'audit-webhook-ca',
    placeholder: 'FILE',
    description: 'CA certificates (PEM) for the certificate of --audit-webhook',
    read: readAuthorities,
  }),
  healthListen: value({
    name: 'health-listen',
    placeholder: 'HOST:PORT',
    description:
      'address of /livez, /readyz and /metrics, without authentication and TLS; only with --role controllers',
    read: readListenAddress,
  }),
  store: value({
    name: 'store',
    placeholder: 'embedded|etcd',
    description: 'where objects are stored; etcd if --etcd-endpoints is given, else embedded',
    read: oneOf('embedded', 'etcd'),
  }),
  dataDir: value(
    {
      name: 'data-dir',
      placeholder: 'DIR',
      default: './.setpoint',
      description: 'directory of the embedded store',
      read: readDirectory,
    },
    serveAndDev,
  ),
  etcdEndpoints: {
    name: 'etcd-endpoints',
    kind: 'list',
    placeholder: 'HOST:PORT,...',
    description: 'members of the etcd cluster, separated by commas',
    commands: serve,
    read: readEtcdEndpoint,
  } satisfies ValueFlag<string>,
  etcdPrefix: value({
    name: 'etcd-prefix',
    placeholder: 'PREFIX',
    default: '/setpoint',
    description: 'prefix of every key in etcd',
    read: readKeyPrefix,
  }),
  etcdCa: value({
    name: 'etcd-ca',
    placeholder: 'FILE',
    description: 'CA certificates (PEM) for etcd; reloaded when they change',
    read: readAuthoritiesFile,
  }),
  etcdCert: value({
    name: 'etcd-cert',
    placeholder: 'FILE',
    description: 'client certificate (PEM) for etcd; reloaded when it changes; needs --etcd-key',
    read: readPemFile,
  }),
  etcdKey: value({
    name: 'etcd-key',
    placeholder: 'FILE',
    description: 'private key (PEM) of --etcd-cert',
    read: readPemFile,
  }),
  etcdUser: value({
    name: 'etcd-user',
    placeholder: 'NAME',
    description: 'user of etcd; needs --etcd-password',
    read: readNonEmpty,
  }),
  etcdPassword: value({
    name: 'etcd-password',
    placeholder: 'PASSWORD',
    description:
      'password of --etcd-user. Every user of this machine can read the command line: prefer the environment or the configuration file',
    read: readNonEmpty,
  }),
  plugin: {
    name: 'plugin',
    kind: 'repeatable',
    placeholder: 'SOURCE',
    description:
      'plugin to load: a folder, a .tgz of `npm pack`, or the name of a package that is installed in the working directory; by default every folder of plugins/ of the installation',
    commands: serve,
    read: readPluginSource,
  } satisfies ValueFlag<PluginSource>,
  maxWatches: value({
    name: 'max-watches',
    placeholder: 'COUNT',
    default: String(watchLimitDefaults.connections),
    description: 'most connections with watches; further ones get 429',
    read: readCount,
  }),
  maxWatchesPerUser: value({
    name: 'max-watches-per-user',
    placeholder: 'COUNT',
    default: String(watchLimitDefaults.connectionsPerUser),
    description: 'most connections with watches of one user; without authentication all callers are one user',
    read: readCount,
  }),
  reservedDomain: value({
    name: 'reserved-domain',
    placeholder: 'DOMAIN',
    default: 'setpoint.dev',
    description: 'domain whose groups and labels belong to Setpoint itself',
    read: readDomain,
  }),
  grantPlugins: value({
    name: 'grant-plugins',
    placeholder: 'true|false',
    default: 'false',
    bare: 'true',
    description:
      'give plugins the permissions that they ask for, by roles and bindings; otherwise bind their ClusterRole setpoint:plugin:NAME; without authentication plugins may do everything',
    read: oneOf('true', 'false'),
  }),
  kubernetesKinds: value({
    name: 'kubernetes-kinds',
    placeholder: 'true|false',
    default: 'true',
    bare: 'true',
    description:
      "serve Kubernetes' own kinds, such as Namespace, Secret and Lease; with false only the server itself uses them",
    read: oneOf('true', 'false'),
  }),
  lease: value({
    name: 'lease',
    placeholder: 'NAME',
    default: 'setpoint-controllers',
    description:
      'lease for the leader election between processes with controllers; processes with different plugins need different leases',
    read: readLeaseName,
  }),
  logLevel: value(
    {
      name: 'log-level',
      placeholder: logLevels.join('|'),
      default: 'info',
      description: 'least severe level to log',
      read: oneOf(...logLevels),
    },
    serveAndDev,
  ),
  logFormat: value(
    {
      name: 'log-format',
      placeholder: 'auto|json|text',
      default: 'auto',
      description: 'the form of log lines; auto: text when standard error is a terminal, else JSON',
      read: oneOf('auto', 'json', 'text'),
    },
    serveAndDev,
  ),
  user: {
    name: 'user',
    kind: 'value',
    placeholder: 'NAME',
    description: 'user that the token authenticates',
    commands: token,
    read: readNonEmpty,
  } satisfies ValueFlag<string>,
  group: {
    name: 'group',
    kind: 'repeatable',
    placeholder: 'GROUP',
    default: builtInGroups.admins,
    description: `group of the user: ${builtInGroups.admins} may do everything, ${builtInGroups.viewers} may get, list and watch`,
    commands: token,
    read: readNonEmpty,
  } satisfies ValueFlag<string>,
  output: {
    name: 'output',
    kind: 'value',
    placeholder: 'entry|token|json',
    default: 'entry',
    description:
      'what to print to standard output: the entry or the token, with the other one on standard error, or one JSON object with user, groups, sha256 and token',
    commands: token,
    read: oneOf('entry', 'token', 'json'),
  } satisfies DefaultedFlag<TokenOutput>,
  kubeconfigOutput: value(
    {
      name: 'output',
      placeholder: 'FILE',
      description: 'file to write, readable by its owner only; by default standard output',
      read: readNonEmpty,
    },
    kubeconfig,
  ),
  config: value(
    {
      name: 'config',
      placeholder: 'FILE',
      description:
        'YAML file with settings; its keys are the names of these flags without the leading dashes',
      read: readTextFile,
    },
    serveAndDev,
  ),
})

export const allFlags: readonly Flag[] = Object.freeze(Object.values(flags))

/** Returns the flags of a command. */
export function flagsOf(command: CommandName): readonly Flag[] {
  return allFlags.filter(({ commands }) => commands.includes(command))
}

/** Its name in the environment: `--data-dir` is `SETPOINT_DATA_DIR`. */
export function environmentName(flag: Flag): string {
  return `SETPOINT_${flag.name.toUpperCase().replaceAll('-', '_')}`
}
