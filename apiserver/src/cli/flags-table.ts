import type { PluginSource } from '../plugins/index.ts'
import { builtInGroups } from '../security/access.ts'
import { watchLimitDefaults } from '../watch/watch-limits.ts'
import { type CommandName, type Flag, type ValueFlag, value } from './flag.ts'
import { auditFlags } from './flags-audit.ts'
import { backupFlags } from './flags-backup.ts'
import { checkFlags } from './flags-check.ts'
import {
  readAuthoritiesFile,
  readOwnTokenFile,
  readPemFile,
  readSecretFile,
  readTokenFile,
} from './flags-files.ts'
import { oidcFlags } from './flags-oidc.ts'
import { readPluginSource } from './flags-plugin.ts'
import { purgeFlags } from './flags-purge.ts'
import { serviceAccountTokenFlags } from './flags-service-account-token.ts'
import { configFlag } from './flags-settings.ts'
import { statusFlags } from './flags-status.ts'
import { storeFlags } from './flags-store.ts'
import {
  oneOf,
  readAllowedOrigin,
  readBasePath,
  readBoolean,
  readCount,
  readDomain,
  readLimit,
  readListenAddress,
  readNonEmpty,
  readServerUrl,
} from './flags-values.ts'
import { webhookFlags } from './flags-webhooks.ts'

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
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
  listen: value({
    name: 'listen',
    placeholder: 'HOST:PORT',
    default: '127.0.0.1:8090',
    description: 'address to serve on; port 0 picks a free port; write an IPv6 address in brackets',
    commands: ['serve', 'dev', 'kubeconfig'],
    differs: { kubeconfig: { description: "the server's --listen" } },
    read: readListenAddress,
  }),
  basePath: value({
    name: 'base-path',
    placeholder: 'PATH',
    default: '/',
    description: 'prefix of every path of the API',
    commands: ['serve', 'kubeconfig'],
    differs: { kubeconfig: { description: "the server's --base-path" } },
    read: readBasePath,
  }),
  server: value({
    name: 'server',
    placeholder: 'URL',
    description: 'API server for the controllers; only with --role controllers',
    read: readServerUrl,
  }),
  kubeconfigServer: value({
    name: 'server',
    placeholder: 'URL',
    description:
      'URL of the API, including the base path; by default built from --listen, --base-path and --tls-cert',
    meansTheSame: true,
    commands: ['kubeconfig'],
    read: readServerUrl,
  }),
  serverTokenFile: value({
    name: 'server-token-file',
    placeholder: 'FILE',
    description: 'file with the bearer token for --server; reloaded when it changes',
    commands: ['serve', 'service-account-token', 'status', 'backup'],
    read: readSecretFile,
  }),
  serverCa: value({
    name: 'server-ca',
    placeholder: 'FILE',
    description:
      "CA certificates (PEM) for the API server's certificate; a process that keeps running reloads them when they change",
    commands: ['serve', 'kubeconfig', 'service-account-token', 'status', 'backup'],
    read: readAuthoritiesFile,
  }),
  healthListen: value({
    name: 'health-listen',
    placeholder: 'HOST:PORT',
    description:
      'address of /livez, /readyz and /metrics, without authentication and TLS; only with --role controllers',
    read: readListenAddress,
  }),
  collector: value({
    name: 'collector',
    placeholder: 'true|false',
    default: 'true',
    bare: 'true',
    description:
      'delete dependents of deleted owners, and old events; false if the user of --server-token-file may not reach all kinds; only with --role controllers',
    read: readBoolean,
  }),
  token: value({
    name: 'token',
    placeholder: 'TOKEN',
    description:
      'bearer token of the user. Every user of this machine can read the command line: prefer --token-file',
    commands: ['kubeconfig'],
    read: readNonEmpty,
  }),
  clientCertificate: value({
    name: 'client-certificate',
    placeholder: 'FILE',
    description: 'certificate (PEM) of the user, see --client-ca of `setpoint serve`; needs --client-key',
    commands: ['kubeconfig'],
    read: readPemFile,
  }),
  clientKey: value({
    name: 'client-key',
    placeholder: 'FILE',
    description: 'private key (PEM) of --client-certificate',
    commands: ['kubeconfig'],
    read: readPemFile,
  }),
  kubeconfigTokenFile: value({
    name: 'token-file',
    placeholder: 'FILE',
    description: 'file with the bearer token of the user',
    commands: ['kubeconfig'],
    read: readOwnTokenFile,
  }),
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
    commands: ['serve'],
    read: readAllowedOrigin,
  } satisfies ValueFlag<string>,
  tlsCert: value({
    name: 'tls-cert',
    placeholder: 'FILE',
    description: 'certificate (PEM) for HTTPS; reloaded when it changes; needs --tls-key',
    commands: ['serve', 'kubeconfig'],
    differs: { kubeconfig: { description: "the server's --tls-cert, which makes the URL https; not read" } },
    read: readPemFile,
  }),
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
  ...oidcFlags,
  ...auditFlags,
  ...storeFlags,
  plugin: {
    name: 'plugin',
    kind: 'repeatable',
    placeholder: 'SOURCE',
    description:
      'plugin to load: a folder, a .tgz of `npm pack`, or the name of a package that is installed in the working directory; by default every folder of plugins/ of the installation',
    commands: ['serve'],
    read: readPluginSource,
  } satisfies ValueFlag<PluginSource>,
  console: value({
    name: 'console',
    placeholder: 'true|false',
    default: 'true',
    bare: 'true',
    description: 'serve the console, a page for people at /console',
    read: readBoolean,
  }),
  reservedDomain: value({
    name: 'reserved-domain',
    placeholder: 'DOMAIN',
    default: 'setpoint.dev',
    description: 'domain whose groups and labels belong to Setpoint itself',
    commands: ['serve', 'status', 'purge'],
    read: readDomain,
  }),
  grantPlugins: value({
    name: 'grant-plugins',
    placeholder: 'true|false',
    default: 'false',
    bare: 'true',
    description:
      'give plugins the permissions that they ask for, by roles and bindings; otherwise bind their ClusterRole setpoint:plugin:NAME; without authentication plugins may do everything',
    read: readBoolean,
  }),
  kubernetesKinds: value({
    name: 'kubernetes-kinds',
    placeholder: 'true|false',
    default: 'true',
    bare: 'true',
    description:
      "serve Kubernetes' own kinds, such as Namespace, Secret and Lease; with false only the server itself uses them",
    read: readBoolean,
  }),
  ...webhookFlags,
  lease: value({
    name: 'lease',
    placeholder: 'NAME',
    default: 'setpoint-controllers',
    description:
      'lease for the leader election between processes with controllers; processes with different plugins need different leases',
    commands: ['serve', 'status'],
    differs: { status: { description: 'lease of the controllers' } },
    read: readDomain,
  }),
  leaseDuration: value({
    name: 'lease-duration',
    placeholder: 'SECONDS',
    default: '15',
    description:
      'time after which another process takes the lease of a leader that does not renew it; the leader stops its controllers after two thirds of it',
    read: readCount,
  }),
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
  slowRequestMs: value({
    name: 'slow-request-ms',
    placeholder: 'MILLISECONDS',
    default: '1000',
    description:
      'requests that take at least this long are logged with where their time went, except for watches; 0 logs none',
    read: readLimit,
  }),
  logLevel: value({
    name: 'log-level',
    placeholder: logLevels.join('|'),
    default: 'info',
    description: 'least severe level to log',
    commands: ['serve', 'dev', 'service-account-token'],
    read: oneOf(...logLevels),
  }),
  logFormat: value({
    name: 'log-format',
    placeholder: 'auto|json|text',
    default: 'auto',
    description: 'the form of log lines; auto: text when standard error is a terminal, else JSON',
    commands: ['serve', 'dev', 'service-account-token'],
    differs: { dev: { default: 'text', description: 'the form of log lines' } },
    read: oneOf('auto', 'json', 'text'),
  }),
  user: value({
    name: 'user',
    placeholder: 'NAME',
    description: 'user that the token authenticates',
    commands: ['token'],
    read: readNonEmpty,
  }),
  group: {
    name: 'group',
    kind: 'repeatable',
    placeholder: 'GROUP',
    description: `group of the user: ${builtInGroups.admins} may do everything, ${builtInGroups.viewers} may get, list and watch. Without a group, the user may do what roles allow the user alone`,
    commands: ['token'],
    read: readNonEmpty,
  } satisfies ValueFlag<string>,
  newTokenFile: value({
    name: 'token-file',
    placeholder: 'FILE',
    description:
      'token file of the server. It gets the entry, and only the token is printed. A new file is readable by its owner only',
    commands: ['token'],
    read: readNonEmpty,
  }),
  output: value({
    name: 'output',
    placeholder: 'entry|token|json',
    description:
      'what to print to standard output: the entry or the token, with the other one on standard error, or one JSON object with user, groups, sha256 and token. With --token-file, the token is the default; without, the entry',
    commands: ['token'],
    read: oneOf('entry', 'token', 'json'),
  }),
  outputFile: value({
    name: 'output',
    placeholder: 'FILE',
    description: 'file to write, readable by its owner only; by default standard output',
    commands: ['kubeconfig', 'service-account-token'],
    read: readNonEmpty,
  }),
  ...serviceAccountTokenFlags,
  ...statusFlags,
  ...checkFlags,
  ...purgeFlags,
  ...backupFlags,
  config: configFlag,
})

/** The parts of the help of `serve`, each with its first flag. The flags of a part stand together in the table. */
export const areas: readonly { readonly title: string; readonly first: Flag }[] = Object.freeze([
  { title: 'What runs, and where', first: flags.role },
  { title: 'Controllers in a process of their own', first: flags.server },
  { title: 'Who may call, and HTTPS', first: flags.tokenFile },
  { title: 'Single sign-on', first: flags.oidcIssuer },
  { title: 'Audit log', first: flags.auditLog },
  { title: 'Store', first: flags.store },
  { title: 'Plugins and kinds', first: flags.plugin },
  { title: 'Webhooks for admission and conversions', first: flags.webhookService },
  { title: 'Leader election', first: flags.lease },
  { title: 'Limits and logs', first: flags.maxWatches },
  { title: 'Configuration file', first: flags.config },
])

export const allFlags: readonly Flag[] = Object.freeze(Object.values(flags))

/** Returns the flags of a command. */
export function flagsOf(command: CommandName): readonly Flag[] {
  return allFlags.filter(({ commands }) => commands.includes(command))
}
