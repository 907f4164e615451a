import { createHash } from 'node:crypto'
import { quote } from '../../model/index.ts'
import type { ClientConfig } from './client-config.ts'
import { WebhookCallError } from './webhook-error.ts'

/** Where a webhook is, as a configuration or a definition says it (`clientConfig`). */
export interface WebhookTarget {
  /** The address for messages: of a service, its name in the cluster. */
  readonly url: URL
  /** Where requests go. */
  readonly endpoint: URL
  /** PEM certificates that its certificate is verified by. Undefined for those of the system. */
  readonly caBundle: string | undefined
  /** The name of the service that the certificate may be for instead of the host. */
  readonly serviceName: string | undefined
  /** True for a service: the operator has said where it is. */
  readonly isTrusted: boolean
}

/** The URLs of services, by `<namespace>/<name>`. */
export type WebhookServices = ReadonlyMap<string, string>

/** Reads where a webhook is. @throws WebhookCallError for a service that the operator has not named, and an address that is none */
export function readTarget(
  { url, service, caBundle: encoded }: ClientConfig,
  services: WebhookServices,
): WebhookTarget {
  const caBundle = caBundleOf(encoded)
  if (service === undefined) {
    const endpoint = urlOf(url ?? '')
    return { url: endpoint, endpoint, caBundle, serviceName: undefined, isTrusted: false }
  }
  const { namespace, name, path = '', port = 443 } = service
  const serviceName = `${name}.${namespace}.svc`
  const address = urlOf(`https://${serviceName}:${port}`)
  if (path !== '') address.pathname = path
  const known = services.get(`${namespace}/${name}`)
  if (known === undefined)
    throw new WebhookCallError(
      `the service ${namespace}/${name} is not known: name its URL with --webhook-service ${namespace}/${name}=https://<host>:<port>`,
    )
  const endpoint = new URL(known)
  endpoint.pathname = address.pathname
  return { url: address, endpoint, caBundle, serviceName, isTrusted: true }
}

/** Kubernetes takes URLs that cannot be called, such as those with a port past 65535. */
function urlOf(text: string): URL {
  try {
    return new URL(text)
  } catch {
    throw new WebhookCallError(`${quote(text)} is no address that can be called`)
  }
}

function caBundleOf(encoded = ''): string | undefined {
  const text = Buffer.from(encoded, 'base64').toString()
  return text.trim() === '' ? undefined : text
}

/** Identifies a bundle of certificates. */
export function fingerprintOf(caBundle: string): string {
  return createHash('sha256').update(caBundle).digest('base64')
}
