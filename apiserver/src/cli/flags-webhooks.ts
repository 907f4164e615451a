import { isIP } from 'node:net'
import { checkDnsLabel, checkSubdomain } from '@setpoint/controller-runtime/api'
import type { ValueFlag } from './flag.ts'
import type { Settings } from './flags-settings.ts'
import { isLoopback, type ListenAddress, quote, readServerUrl, UsageError } from './flags-values.ts'

/** The service of a webhook, by `<namespace>/<name>`, and where it is. */
type WebhookService = readonly [service: string, url: string]

const repeatable = { kind: 'repeatable', commands: ['serve'] } as const

/**
 * The flags of webhooks for admission and conversions. The last three are named as the settings of plugins for targets.
 */
export const webhookFlags = Object.freeze({
  webhookService: {
    ...repeatable,
    name: 'webhook-service',
    placeholder: 'NAMESPACE/NAME=URL',
    description:
      'where the service is that webhooks of objects name, as https://HOST:PORT; its certificate is for NAME.NAMESPACE.svc or HOST',
    read: readService,
  } satisfies ValueFlag<WebhookService>,
  webhookAllowedHost: {
    ...repeatable,
    name: 'webhook-allowed-host',
    placeholder: 'HOST',
    description:
      'host that URLs of webhooks may name, such as hooks.example.com or *.example.com; by default all',
    read: readHost,
  } satisfies ValueFlag<string>,
  webhookDeniedNetwork: {
    ...repeatable,
    name: 'webhook-denied-network',
    placeholder: 'NETWORK',
    description:
      'network that no webhook with a URL may be in, such as 10.0.0.0/8; by default link-local and multicast addresses, the metadata services of clouds, and loopback unless the server itself listens on it',
    read: readNetwork,
  } satisfies ValueFlag<string>,
  webhookAllowedNetwork: {
    ...repeatable,
    name: 'webhook-allowed-network',
    placeholder: 'NETWORK',
    description: 'network that webhooks may be in although it is part of a denied one',
    read: readNetwork,
  } satisfies ValueFlag<string>,
})

/** Where webhooks may be that objects name. */
export interface WebhookOptions {
  /** The URLs of services, by `<namespace>/<name>`. */
  readonly services: ReadonlyMap<string, string>
  /** Empty for all. */
  readonly allowedHosts: readonly string[]
  /** Default: those of plugins. */
  readonly deniedNetworks: readonly string[] | undefined
  readonly allowedNetworks: readonly string[]
}

/** @throws UsageError for a service that is given twice */
export function webhookOptions(settings: Settings, { host }: ListenAddress): WebhookOptions {
  const given = settings.several(webhookFlags.webhookService) ?? []
  const services = new Map(given)
  if (services.size < given.length) throw new UsageError('--webhook-service names a service twice')
  const deniedNetworks = settings.several(webhookFlags.webhookDeniedNetwork)
  // Whoever can configure webhooks on this machine's own address can reach the machine anyway.
  const local = deniedNetworks === undefined && isLoopback(host) ? ['127.0.0.0/8', '::1/128'] : []
  return {
    services,
    allowedHosts: settings.several(webhookFlags.webhookAllowedHost) ?? [],
    deniedNetworks,
    allowedNetworks: [...(settings.several(webhookFlags.webhookAllowedNetwork) ?? []), ...local],
  }
}

function readService(text: string): WebhookService {
  const form = 'NAMESPACE/NAME=https://HOST:PORT is accepted'
  const [, namespace = '', name = '', url = ''] = /^([^/=]+)\/([^/=]+)=(.+)$/.exec(text) ?? []
  if (checkDnsLabel(namespace) !== undefined || checkDnsLabel(name) !== undefined)
    throw new UsageError(`${quote(text)} is not a service with its URL: ${form}`)
  const read = new URL(readServerUrl(url))
  if (read.protocol !== 'https:' || read.pathname !== '/')
    throw new UsageError(
      `${quote(text)}: webhooks are called over HTTPS, at the path that objects say: ${form}`,
    )
  return [`${namespace}/${name}`, read.origin]
}

function readHost(text: string): string {
  const host = text.replace(/^\*\./, '')
  if (isIP(text) === 0 && checkSubdomain(host.toLowerCase()) !== undefined)
    throw new UsageError(
      `${quote(text)} is not a host: hooks.example.com, *.example.com or an address is accepted`,
    )
  return text
}

function readNetwork(text: string): string {
  const [address = '', bits = '', ...rest] = text.split('/')
  const family = isIP(address)
  const isPrefix = /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128)
  if (family === 0 || !isPrefix || rest.length > 0)
    throw new UsageError(`${quote(text)} is not a network: 10.0.0.0/8 or fd00::/8 is accepted`)
  return text
}
