import { resolve } from 'node:path'
import { checkDnsLabel, checkSubdomain } from '@setpoint/controller-runtime/api'
import { tokenLife } from '../kubernetes/service-accounts/token-life.ts'
import type { ServiceAccountName } from '../security/index.ts'
import { type ValueFlag, value } from './flag.ts'
import type { Settings } from './flags-settings.ts'
import { quote, readBoolean, readDomain, readNonEmpty, readServerUrl, UsageError } from './flags-values.ts'
import type { ServerConnection } from './server-transport.ts'

/** The flags of `setpoint service-account-token`, besides those that it shares with other commands. */
export const serviceAccountTokenFlags = Object.freeze({
  tokenServer: value({
    name: 'server',
    placeholder: 'URL',
    description: 'URL of the API with its base path',
    meansTheSame: true,
    commands: ['service-account-token'],
    read: readServerUrl,
  }),
  duration: value({
    name: 'duration',
    placeholder: 'TIME',
    default: '1h',
    description: 'life of the token, from 10m to 24h',
    commands: ['service-account-token'],
    read: readLife,
  }),
  audience: {
    name: 'audience',
    kind: 'repeatable',
    placeholder: 'AUDIENCE',
    description: 'service that the token is for; by default the API',
    commands: ['service-account-token'],
    read: readNonEmpty,
  } satisfies ValueFlag<string>,
  boundSecret: value({
    name: 'bound-secret',
    placeholder: 'NAME',
    description: 'Secret in the namespace of the account; the token ends with it',
    commands: ['service-account-token'],
    read: readDomain,
  }),
  renew: value({
    name: 'renew',
    placeholder: 'true|false',
    default: 'false',
    bare: 'true',
    description: 'keep running, and replace the token in --output before it expires',
    commands: ['service-account-token'],
    read: readBoolean,
  }),
})

/** The token to request. */
export interface RequestedToken extends ServerConnection {
  readonly account: ServiceAccountName
  /** Empty: the API. */
  readonly audiences: readonly string[]
  readonly lifeSeconds: number
  /** The name of the Secret that the token ends with. */
  readonly boundSecret: string | undefined
  /** The file to write. Default: standard output. */
  readonly output: { readonly path: string; readonly isRenewed: boolean } | undefined
}

/** @throws UsageError */
export function requestedToken(
  settings: Settings,
  account: string,
  shared: Omit<ServerConnection, 'server'> & { readonly output: string | undefined },
): RequestedToken {
  const flags = serviceAccountTokenFlags
  const server = settings.optional(flags.tokenServer)
  if (server === undefined) throw new UsageError('service-account-token needs --server URL')
  const isRenewed = settings.value(flags.renew)
  const { output, ...connection } = shared
  if (isRenewed && output === undefined)
    throw new UsageError('--renew needs --output FILE: the file with the token')
  return {
    account: readAccount(account),
    server,
    ...connection,
    audiences: settings.several(flags.audience) ?? [],
    lifeSeconds: settings.value(flags.duration),
    boundSecret: settings.optional(flags.boundSecret),
    output: output === undefined ? undefined : { path: resolve(output), isRenewed },
  }
}

function readAccount(text: string): ServiceAccountName {
  const [namespace = '', name = '', ...rest] = text.split('/')
  const isName = checkDnsLabel(namespace) === undefined && checkSubdomain(name) === undefined
  if (!isName || rest.length > 0)
    throw new UsageError(
      `${quote(text)} is not a service account: NAMESPACE/NAME is accepted, such as default/robot`,
    )
  return { namespace, name }
}

const secondsOfUnit: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }

/** Returns seconds. */
function readLife(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,6})([smh])$/.exec(text) ?? []
  const seconds = Number(count) * (secondsOfUnit[unit] ?? 0)
  if (seconds < tokenLife.shortestSeconds || seconds > tokenLife.longestSeconds)
    throw new UsageError(
      `${quote(text)} is not the life of a token: 10m to 24h is accepted, such as 1h or 90m`,
    )
  return seconds
}
