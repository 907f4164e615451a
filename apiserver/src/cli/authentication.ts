import {
  authenticationReviews,
  BoundObjects,
  ServiceAccountTokens,
  type SigningKeys,
  serviceAccountIssuer,
  tokenRequest,
} from '../kubernetes/index.ts'
import type { Logger } from '../log/index.ts'
import { describeAuthentication, type Metrics } from '../metrics/index.ts'
import type { ServerRooms } from '../rooms.ts'
import {
  type Access,
  Authentication,
  AuthenticationCounts,
  BearerTokens,
  ClientCertificates,
  LocalAccess,
  OidcIssuer,
  TokenFile,
  type WatchedFiles,
} from '../security/index.ts'
import type { NamedText } from './flags-files.ts'
import type { AuthenticationOptions } from './options.ts'

/** The ways to authenticate of a server. */
export interface ServerAuthentication {
  readonly access: Access
  readonly issuer: ServiceAccountTokens
  /** With the file that their authorities come from. */
  readonly clients: { readonly ca: NamedText; readonly certificates: ClientCertificates } | undefined
}

interface Parts {
  readonly rooms: Pick<ServerRooms, 'models' | 'registry' | 'follower' | 'gate'>
  readonly metrics: Pick<Metrics, 'registry'>
  readonly signingKeys: SigningKeys
  readonly files: WatchedFiles
  readonly log: Logger
}

/** Assembles the configured ways to authenticate, with their metrics, and serves the reviews of authentication. */
export function authenticate(
  options: AuthenticationOptions | undefined,
  { rooms, metrics, signingKeys, files, log }: Parts,
): ServerAuthentication {
  const { tokenFile, clientCa, oidc = [] } = options ?? {}
  const { models } = rooms
  const counts = new AuthenticationCounts()
  const file = tokenFile && new TokenFile({ ...tokenFile, files, log })
  const issuers = oidc.map(each => new OidcIssuer(each, { log }))
  const accounts = new ServiceAccountTokens({
    keys: signingKeys,
    objects: new BoundObjects(rooms),
  })
  const audience = serviceAccountIssuer
  const tokens = new BearerTokens({ issuers: [accounts, ...issuers], file, audience, counts })
  for (const review of [...authenticationReviews(tokens), tokenRequest({ ...rooms, tokens: accounts })])
    models.addReview(review)
  describeAuthentication(metrics.registry, { counts, verified: tokens.verified, issuers })
  for (const issuer of issuers) issuer.start()
  if (options === undefined) return { access: new LocalAccess(), issuer: accounts, clients: undefined }
  const clients = clientCa && { ca: clientCa, certificates: new ClientCertificates(clientCa.text) }
  const access = new Authentication({ certificates: clients?.certificates, tokens, counts })
  return { access, issuer: accounts, clients }
}
