import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PluginSource, SettingsSources } from '../plugins/index.ts'
import { readArguments } from './command-line.ts'
import type { NewPlugin } from './create-command.ts'
import { environmentName, type Flag } from './flag.ts'
import { auditFlags, auditOptions } from './flags-audit.ts'
import {
  type BackupCommandOptions,
  backupOptions,
  type RestoreCommandOptions,
  restoreOptions,
  type VerifyCommandOptions,
  verifyOptions,
} from './flags-backup.ts'
import { type CheckOptions, checkOptions } from './flags-check.ts'
import type { ReadFile } from './flags-files.ts'
import { oidcFlags, oidcOptions } from './flags-oidc.ts'
import { keyPair } from './flags-pairs.ts'
import { readPluginSource } from './flags-plugin.ts'
import { type PurgeOptions, purgeOptions } from './flags-purge.ts'
import { requestedToken } from './flags-service-account-token.ts'
import { Settings, type SettingsInForce } from './flags-settings.ts'
import { type StatusOptions, statusOptions } from './flags-status.ts'
import { storeFlags, storeOfCommand, storeOptions } from './flags-store.ts'
import { allFlags, flags, flagsOf } from './flags-table.ts'
import { formatAddress, isLoopback, type ListenAddress, quote, UsageError } from './flags-values.ts'
import { webhookFlags, webhookOptions } from './flags-webhooks.ts'
import type {
  AuthenticationOptions,
  CommonOptions,
  KubeconfigOptions,
  LogOptions,
  ReencryptOptions,
  ServeOptions,
  ServerOptions,
  ServiceAccountTokenOptions,
  TokenOptions,
} from './options.ts'
import type { ServerConnection } from './server-transport.ts'

export interface ServeCommand {
  readonly command: 'serve'
  readonly options: ServeOptions
  /** Path of the configuration file, as it was given. */
  readonly configFile: string | undefined
  readonly settings: SettingsInForce
  /** Warnings for the log, such as unknown environment variables. */
  readonly warnings: readonly string[]
}

export interface DevCommand extends Omit<ServeCommand, 'command'> {
  readonly command: 'dev'
  /** The options of the server. They name the same plugin. */
  readonly options: ServerOptions
  readonly plugin: PluginSource
}

/** The command to run. */
export type CommandLine =
  | ServeCommand
  | DevCommand
  | { readonly command: 'token'; readonly options: TokenOptions }
  | { readonly command: 'service-account-token'; readonly options: ServiceAccountTokenOptions }
  | { readonly command: 'kubeconfig'; readonly options: KubeconfigOptions }
  | { readonly command: 'status'; readonly options: StatusOptions }
  | { readonly command: 'check'; readonly options: CheckOptions }
  | { readonly command: 'purge'; readonly options: PurgeOptions }
  | { readonly command: 'backup'; readonly options: BackupCommandOptions }
  | { readonly command: 'restore'; readonly options: RestoreCommandOptions }
  | { readonly command: 'verify'; readonly options: VerifyCommandOptions }
  | { readonly command: 'reencrypt'; readonly options: ReencryptOptions }
  | { readonly command: 'definitions'; readonly plugin: PluginSource }
  | { readonly command: 'create'; readonly plugin: NewPlugin }
  /** Help or the version. */
  | { readonly command: 'help'; readonly text: string }

/**
 * Reads the command line (without Node and the script), the environment and the configuration file. A flag takes
 * precedence over the environment, the file and the default, in this order.
 *
 * @throws UsageError if a setting is unknown, malformed or contradictory
 */
export function parseCommandLine(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  readFile: ReadFile = path => readFileSync(path, 'utf8'),
): CommandLine {
  const parsed = readArguments(argv)
  if (parsed.command === undefined) return { command: 'help', text: parsed.text }
  if (parsed.command === 'create') return parsed
  if (parsed.command === 'definitions')
    return { command: parsed.command, plugin: readPluginSource(parsed.plugin, readFile) }
  const taken = flagsOf(parsed.command)
  // Other commands get the file of a server.
  const ofServe = flagsOf('serve')
  const inFile = parsed.command === 'dev' ? taken : ofServe
  const settings = new Settings(parsed.command, { taken, inFile, ofServe }, parsed.given, env, readFile)
  if (parsed.command === 'token') return { command: parsed.command, options: tokenOptions(settings) }
  if (parsed.command === 'service-account-token')
    return { command: parsed.command, options: serviceAccountTokenOptions(settings, parsed.account) }
  if (parsed.command === 'kubeconfig')
    return { command: parsed.command, options: kubeconfigOptions(settings) }
  if (parsed.command === 'status') return { command: parsed.command, options: statusOf(settings) }
  if (parsed.command === 'check') return { command: parsed.command, options: checkOptions(settings) }
  if (parsed.command === 'purge')
    return {
      command: parsed.command,
      options: purgeOptions(settings, parsed.group, settings.value(flags.reservedDomain)),
    }
  if (parsed.command === 'backup')
    return {
      command: parsed.command,
      options: backupOptions(settings, parsed.file, connectionOptions(settings)),
    }
  if (parsed.command === 'restore')
    return { command: parsed.command, options: restoreOptions(settings, parsed.files) }
  if (parsed.command === 'verify')
    return { command: parsed.command, options: verifyOptions(settings, parsed.files) }
  if (parsed.command === 'reencrypt') return { command: parsed.command, options: reencryptOptions(settings) }
  const shared = {
    configFile: settings.configFile,
    settings: settings.inForce(),
    warnings: strayVariables(env),
  }
  if (parsed.command === 'serve')
    return { command: parsed.command, options: serveOptions(settings, env), ...shared }
  const plugin = readPluginSource(parsed.dir, readFile)
  if (plugin.kind !== 'folder') throw new UsageError(`${quote(parsed.dir)} is not the folder of a plugin`)
  return { command: parsed.command, options: devOptions(settings, plugin, env), plugin, ...shared }
}

/** @throws UsageError */
function tokenOptions(settings: Settings): TokenOptions {
  const name = settings.optional(flags.user)
  if (name === undefined) throw new UsageError('token needs --user NAME')
  const user = { name, groups: settings.several(flags.group) ?? [] }
  const file = settings.optional(flags.newTokenFile)
  const output = settings.optional(flags.output)
  if (file === undefined) return { user, output: output ?? 'entry' }
  if (output === 'entry')
    throw new UsageError('--output entry and --token-file exclude each other: the file gets the entry')
  return { user, output: output ?? 'token', file }
}

/** @throws UsageError */
function serviceAccountTokenOptions(settings: Settings, account: string): ServiceAccountTokenOptions {
  const shared = { ...connectionOptions(settings), output: settings.optional(flags.outputFile) }
  return { ...requestedToken(settings, account, shared), ...logOptions(settings) }
}

/** @throws UsageError */
function reencryptOptions(settings: Settings): ReencryptOptions {
  const encryption = settings.optional(flags.encryptionProviderConfig)
  if (encryption === undefined) throw new UsageError('reencrypt needs --encryption-provider-config FILE')
  return { store: storeOfCommand(settings), encryption }
}

function connectionOptions(settings: Settings): Omit<ServerConnection, 'server'> {
  return {
    serverToken: settings.optional(flags.serverTokenFile),
    serverCa: settings.optional(flags.serverCa),
  }
}

function statusOf(settings: Settings): StatusOptions {
  return statusOptions(settings, {
    ...connectionOptions(settings),
    reservedDomain: settings.value(flags.reservedDomain),
    lease: settings.value(flags.lease),
  })
}

function logOptions(settings: Settings): LogOptions {
  return { logLevel: settings.value(flags.logLevel), logFormat: settings.value(flags.logFormat) }
}

/** @throws UsageError if the URL is not known, or the certificate and its key do not belong together */
function kubeconfigOptions(settings: Settings): KubeconfigOptions {
  const certificate = keyPair(settings, flags.clientCertificate, flags.clientKey)
  return {
    server: settings.optional(flags.kubeconfigServer) ?? listeningUrl(settings),
    ca: settings.optional(flags.serverCa)?.text,
    token: settings.optional(flags.token) ?? settings.optional(flags.kubeconfigTokenFile),
    certificate: certificate && { cert: certificate.cert.text, key: certificate.key.text },
    output: settings.optional(flags.outputFile),
  }
}

/** Returns the URL of a server with these settings, for clients on this machine. */
function listeningUrl(settings: Settings): string {
  const { host, port } = settings.value(flags.listen)
  if (port === 0) throw new UsageError('port 0 does not tell the URL: give --server URL')
  const scheme = settings.origin(flags.tlsCert) === undefined ? 'http' : 'https'
  const reachable = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  return `${scheme}://${formatAddress({ host: reachable, port })}${settings.value(flags.basePath)}`
}

type Env = SettingsSources['env']

/** Returns the defaults of a server with one plugin and an embedded store in its folder. */
function devOptions(settings: Settings, plugin: PluginSource, env: Env): ServerOptions {
  const options = serverOptions(settings, 'all', env)
  return {
    ...options,
    plugins: [plugin],
    store: {
      kind: 'embedded',
      dataDir: settings.optional(flags.dataDir) ?? join(plugin.path, '.setpoint'),
      compact: false,
    },
    logFormat: options.logFormat === 'auto' ? 'text' : options.logFormat,
  }
}

function commonOptions(settings: Settings, env: Env): CommonOptions {
  return {
    plugins: settings.several(flags.plugin),
    pluginSettings: { env: pluginVariables(env), config: settings.plugins },
    reservedDomain: settings.value(flags.reservedDomain),
    lease: settings.value(flags.lease),
    leaseDurationMs: settings.value(flags.leaseDuration) * 1000,
    ...logOptions(settings),
  }
}

function serveOptions(settings: Settings, env: Env): ServeOptions {
  const role = settings.value(flags.role)
  const server = settings.optional(flags.server)
  if (role === 'controllers') {
    // An image or a shared file may have settings of other roles, so only check the command line.
    const useless = serverFlags.find(flag => settings.isOnCommandLine(flag))
    if (useless !== undefined) {
      throw new UsageError(`--${useless.name} has no effect with --role controllers`)
    }
    if (server === undefined)
      throw new UsageError('--role controllers needs --server URL: the API to work against')
    return {
      ...commonOptions(settings, env),
      role,
      server,
      ...connectionOptions(settings),
      collector: settings.value(flags.collector),
      healthListen: settings.optional(flags.healthListen),
    }
  }
  for (const flag of controllersFlags) {
    const origin = settings.origin(flag)
    if (origin !== undefined)
      throw new UsageError(`${origin} is accepted only with --role controllers; the role is ${role}`)
  }
  return serverOptions(settings, role, env)
}

function serverOptions(settings: Settings, role: ServerOptions['role'], env: Env): ServerOptions {
  const listen = settings.value(flags.listen)
  const authentication = authenticationOptions(settings)
  if (authentication === undefined) refuseForeignCallers(listen, settings.origin(flags.listen) ?? '--listen')
  return {
    ...commonOptions(settings, env),
    role,
    listen,
    basePath: settings.value(flags.basePath),
    store: storeOptions(settings),
    encryption: settings.optional(flags.encryptionProviderConfig),
    console: settings.value(flags.console),
    kubernetesKinds: settings.value(flags.kubernetesKinds),
    grantPlugins: settings.value(flags.grantPlugins),
    watchLimits: {
      connections: settings.value(flags.maxWatches),
      connectionsPerUser: settings.value(flags.maxWatchesPerUser),
    },
    authentication,
    allowedOrigins: settings.several(flags.allowedOrigin) ?? [],
    tls: keyPair(settings, flags.tlsCert, flags.tlsKey),
    audit: auditOptions(settings),
    webhooks: webhookOptions(settings, listen),
    slowRequestMs: settings.value(flags.slowRequestMs),
  }
}

/** @throws UsageError */
function authenticationOptions(settings: Settings): AuthenticationOptions | undefined {
  const tokenFile = settings.optional(flags.tokenFile)
  const clientCa = settings.optional(flags.clientCa)
  const oidc = oidcOptions(settings)
  if (clientCa !== undefined && settings.origin(flags.tlsCert) === undefined)
    throw new UsageError(
      `${settings.origin(flags.clientCa)} needs --tls-cert and --tls-key: clients present certificates only over TLS`,
    )
  if (tokenFile === undefined && clientCa === undefined && oidc.length === 0) return undefined
  return { tokenFile, clientCa, oidc }
}

const controllersFlags: readonly Flag[] = [
  flags.server,
  flags.serverTokenFile,
  flags.serverCa,
  flags.collector,
  flags.healthListen,
]

const serverFlags: readonly Flag[] = [
  flags.listen,
  flags.basePath,
  ...Object.values(storeFlags),
  flags.console,
  flags.kubernetesKinds,
  flags.grantPlugins,
  flags.maxWatches,
  flags.maxWatchesPerUser,
  flags.tokenFile,
  flags.slowRequestMs,
  flags.allowedOrigin,
  flags.tlsCert,
  flags.tlsKey,
  flags.clientCa,
  ...Object.values(oidcFlags),
  ...Object.values(auditFlags),
  ...Object.values(webhookFlags),
]

/** Requires authentication for addresses that other machines can reach. */
function refuseForeignCallers(listen: ListenAddress, origin: string): void {
  if (isLoopback(listen.host)) return
  throw new UsageError(
    `${origin}: ${formatAddress(listen)} is not a loopback address, and without authentication every caller could do everything: give --token-file, --client-ca or --oidc-issuer, or listen on 127.0.0.1, [::1] or localhost`,
  )
}

/** The beginning of the variables for settings of plugins. */
const pluginPrefix = 'SETPOINT_PLUGIN_'

function pluginVariables(env: SettingsSources['env']): SettingsSources['env'] {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith(pluginPrefix)))
}

/** Warns of unknown `SETPOINT_` variables, which are likely misspelt. */
function strayVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  const known = new Set(
    allFlags.flatMap(flag => flag.commands.map(command => environmentName(flag, command))),
  )
  // Kubernetes sets variables in every pod for each Service, and a Service may be called `setpoint`.
  const serviceLink = /_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/
  return Object.keys(env)
    .filter(name => name.startsWith('SETPOINT_') && !name.startsWith(pluginPrefix))
    .filter(name => !known.has(name) && !serviceLink.test(name))
    .map(name => `the environment variable ${name} is not a setting and has no effect`)
}
