import {
  ApiError,
  type Client,
  type Clock,
  isOwnedBy,
  type PluginContext,
  type RouteRequest,
  type RouteResponse,
} from '@setpoint/controller-runtime'
import { isoOf } from './authority.ts'
import { Certificate, keyNameOf } from './certificate.ts'
import { parseDuration } from './duration.ts'
import { group, version } from './group.ts'
import { KeyPair, type KeyPairSpec } from './key-pair.ts'
import { RevocationList } from './revocation-list.ts'

/** The path of an issuer's CRL below `/apis`, for the distribution points of certificates. */
export function crlPathOf(issuer: string): string {
  return `/apis/api.${group}/${version}/issuers/${encodeURIComponent(issuer)}/crl`
}

/** Certificates named in a summary. */
const summarized = 20

/** Registers the routes: each audience has a group of its own. */
export function addRoutes({ routes, clock }: Pick<PluginContext, 'routes' | 'clock'>): void {
  routes(`console.api.${group}/${version}`, r =>
    r.get('/summary', request => summarize(request, clock), {
      summary: 'Counts the certificates, and names those that expire next.',
    }),
  )
  routes(`uc.api.${group}/${version}`, r =>
    r
      .get(
        '/certificates/:name/chain.pem',
        async ({ params, client, signal }) => {
          const { certificate } = await publicPartOf(params.name, client, signal)
          return pem(certificate)
        },
        { summary: 'Returns a certificate with its intermediate ones.' },
      )
      .get(
        '/certificates/:name/ca.pem',
        async ({ params, client, signal }) => {
          const { ca } = await publicPartOf(params.name, client, signal)
          return pem(ca)
        },
        { summary: 'Returns the certificate that verifies a chain.' },
      ),
  )
  routes(`api.${group}/${version}`, r =>
    r
      .get(
        '/issuers/:name/crl',
        async ({ params, client, signal }) => {
          const text = await crlOf(params.name, client, signal)
          const body = Buffer.from(text.replace(/-----[^-]+-----/g, ''), 'base64')
          return { headers: { 'content-type': 'application/pkix-crl' }, body }
        },
        { summary: 'Returns the revocation list of an issuer, in DER.' },
      )
      .get(
        '/issuers/:name/crl.pem',
        async ({ params, client, signal }) => pem(await crlOf(params.name, client, signal)),
        { summary: 'Returns the revocation list of an issuer, in PEM.' },
      ),
  )
}

function pem(body: string | undefined): RouteResponse {
  if (body === undefined) throw new ApiError('NotFound', 'the certificate has not been issued')
  return { headers: { 'content-type': 'application/x-pem-file' }, body }
}

/** Returns the public part of a certificate's KeyPair. */
async function publicPartOf(
  name: string,
  client: Client,
  signal: AbortSignal,
): Promise<Pick<KeyPairSpec, 'certificate' | 'ca'>> {
  const certificate = await client.get(Certificate, name, { signal })
  const keyPair = await client.getIfExists(KeyPair, keyNameOf(certificate), { signal })
  return keyPair !== undefined && isOwnedBy(keyPair, certificate) ? keyPair.spec : {}
}

async function crlOf(name: string, client: Client, signal: AbortSignal): Promise<string> {
  const list = await client.getIfExists(RevocationList, name, { signal })
  const pem = list?.spec.crl?.pem
  if (pem === undefined)
    throw new ApiError('NotFound', `issuer ${JSON.stringify(name)} has no revocation list`)
  return pem
}

/** `?within=` is a duration, 720h by default. */
async function summarize(
  { query, client, signal }: RouteRequest,
  clock: Pick<Clock, 'now'>,
): Promise<RouteResponse> {
  const within = withinOf(query.get('within') ?? '720h')
  const until = isoOf(clock.now() + within)
  const options = { size: 1, signal }
  const all = await client.list(Certificate, options)
  // At one version, so that the numbers add up.
  const at = { resourceVersion: all.metadata.version, resourceVersionMatch: 'Exact' } as const
  const [ready, expired, expiring] = await Promise.all([
    client.list(Certificate, { ...options, ...at, fieldSelector: 'status.ready=True' }),
    client.list(Certificate, { ...options, ...at, fieldSelector: `status.notAfter<=${isoOf(clock.now())}` }),
    client.list(Certificate, {
      ...at,
      signal,
      size: summarized,
      fieldSelector: `status.notAfter<${until}`,
      sort: 'status.notAfter,asc',
    }),
  ])
  return {
    body: {
      total: all.total ?? 0,
      ready: ready.total ?? 0,
      expired: expired.total ?? 0,
      expiring: {
        until,
        total: expiring.total ?? 0,
        next: expiring.items.map(({ metadata, status }) => ({
          name: metadata.name,
          notAfter: status?.notAfter,
        })),
      },
      version: all.metadata.version,
    },
  }
}

function withinOf(text: string): number {
  try {
    return parseDuration(text)
  } catch {
    throw new ApiError('BadRequest', `within must be a duration such as 720h, is ${JSON.stringify(text)}`)
  }
}
