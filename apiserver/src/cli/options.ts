import type { UserInfo } from '@setpoint/controller-runtime'
import type { PluginSource, SettingsSources } from '../plugins/index.ts'
import type { OidcOptions } from '../security/index.ts'
import type { WatchLimits } from '../watch/watch-limits.ts'
import type { AuditOptions } from './flags-audit.ts'
import type { NamedText } from './flags-files.ts'
import type { RequestedToken } from './flags-service-account-token.ts'
import type { StoreOptions } from './flags-store.ts'
import type { LogFormat, LogLevel, TokenOutput } from './flags-table.ts'
import type { ListenAddress } from './flags-values.ts'
import type { WebhookOptions } from './flags-webhooks.ts'
import type { ServerConnection } from './server-transport.ts'

/** The options of `setpoint serve`. */
export type ServeOptions = ServerOptions | ControllersOptions

/** How a command logs. */
export interface LogOptions {
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
}

/** The options of every role. */
export interface CommonOptions extends LogOptions {
  /** The plugins to load, or undefined for every folder of the installation's `plugins/`. */
  readonly plugins: readonly PluginSource[] | undefined
  /** Where the settings of plugins come from. */
  readonly pluginSettings: SettingsSources
  readonly reservedDomain: string
  /** Name of the lease for leader election. */
  readonly lease: string
  /** How long other processes wait for a silent leader. */
  readonly leaseDurationMs: number
}

/** A process that serves the API, and with role `all` runs controllers too. */
export interface ServerOptions extends CommonOptions {
  readonly role: 'all' | 'apiserver'
  readonly listen: ListenAddress
  /** Prefix of every path: '' or `/x`. */
  readonly basePath: string
  readonly store: StoreOptions
  /** How the store is encrypted; undefined if it is not. */
  readonly encryption: NamedText | undefined
  /** True if the console of the installation is served. */
  readonly console: boolean
  /** False if clients do not see the built-in kinds of Kubernetes. */
  readonly kubernetesKinds: boolean
  /** True if plugins get the permissions that they ask for. */
  readonly grantPlugins: boolean
  readonly watchLimits: WatchLimits
  /** How callers authenticate; undefined accepts local callers only. */
  readonly authentication: AuthenticationOptions | undefined
  /** Origins of pages that may call, besides the server's own: `https://app.example.com` or `*.example.com`. */
  readonly allowedOrigins: readonly string[]
  /** Certificate and key for HTTPS; plain HTTP without. */
  readonly tls: { readonly cert: NamedText; readonly key: NamedText } | undefined
  /** Undefined if requests are not audited. */
  readonly audit: AuditOptions | undefined
  readonly webhooks: WebhookOptions
  /** Milliseconds from which a request is logged as slow; 0 if none is. */
  readonly slowRequestMs: number
}

/** At least one way to authenticate. */
export interface AuthenticationOptions {
  /** Accepted tokens. */
  readonly tokenFile: NamedText | undefined
  /** CA certificates (PEM) of clients. */
  readonly clientCa: NamedText | undefined
  readonly oidc: readonly OidcOptions[]
}

/** A process that runs only controllers. */
export interface ControllersOptions extends CommonOptions, ServerConnection {
  readonly role: 'controllers'
  /** True if the process deletes dependents of deleted owners, and old events. */
  readonly collector: boolean
  /** Address of health and metrics; not served if undefined. */
  readonly healthListen: ListenAddress | undefined
}

/** What a kubeconfig says. */
export interface KubeconfigOptions {
  /** URL with the base path. */
  readonly server: string
  /** CA certificates (PEM); without them, those of the client's system count. */
  readonly ca: string | undefined
  readonly token: string | undefined
  /** Client certificate and its key (PEM). */
  readonly certificate: { readonly cert: string; readonly key: string } | undefined
  /** The file to write. Default: standard output. */
  readonly output: string | undefined
}

/** A store to rewrite with its present encryption. */
export interface ReencryptOptions {
  readonly store: StoreOptions
  readonly encryption: NamedText
}

/** A token of a service account to request, and where it goes. */
export interface ServiceAccountTokenOptions extends RequestedToken, LogOptions {}

/** A token to make, and where it goes. */
export interface TokenOptions {
  readonly user: UserInfo
  readonly output: TokenOutput
  /** The token file that gets the entry. */
  readonly file?: string
}
