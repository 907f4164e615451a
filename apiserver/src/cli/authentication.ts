import type { Logger } from '../log/index.ts'
import { describeAuthentication, describeTokenFile, type Metrics } from '../metrics/index.ts'
import {
  type Access,
  Authentication,
  AuthenticationCounts,
  BearerTokens,
  ClientCertificates,
  OidcIssuer,
  TokenFile,
} from '../security/index.ts'
import type { AuthenticationOptions } from './flags.ts'
import type { NamedText } from './flags-values.ts'

/** The ways to authenticate of a server. */
export interface ServerAuthentication {
  readonly access: Access
  readonly tokens: BearerTokens
  /** With the file that their authorities come from. */
  readonly clients: { readonly ca: NamedText; readonly certificates: ClientCertificates } | undefined
  close(): void
}

/** Assembles the configured ways to authenticate, with their metrics. */
export function authenticate(
  { tokenFile, clientCa, oidc }: AuthenticationOptions,
  { metrics, log }: { metrics: Pick<Metrics, 'registry'>; log: Logger },
): ServerAuthentication {
  const counts = new AuthenticationCounts()
  const file = tokenFile && new TokenFile({ ...tokenFile, log })
  const issuers = oidc.map(options => new OidcIssuer(options, { log }))
  const tokens = new BearerTokens({ issuers, file, counts })
  const clients = clientCa && { ca: clientCa, certificates: new ClientCertificates(clientCa.text) }
  if (file !== undefined) describeTokenFile(metrics.registry, file)
  describeAuthentication(metrics.registry, { counts, verified: tokens.verified, issuers })
  for (const issuer of issuers) issuer.start()
  return {
    access: new Authentication({ certificates: clients?.certificates, tokens, counts }),
    tokens,
    clients,
    close: () => file?.close(),
  }
}
