import type { Router } from '@koa/router'
import type { ServiceAccountTokens } from '../kubernetes/index.ts'
import type { Context, RequestState } from './request-state.ts'

export interface IssuerRoutesParts {
  /** Undefined for a server that issues no tokens. */
  readonly issuer?: Pick<ServiceAccountTokens, 'issuer' | 'algorithm' | 'publicKeys'>
  /** Precedes every path: '' or '/x'. */
  readonly basePath: string
}

/**
 * Serves the discovery of the issuer of service accounts' tokens, with which others verify them. Fields, types and
 * caching are those of Kubernetes (`OpenIDMetadataServer`). The address of the keys is on the host of the request.
 */
export function addIssuerRoutes(router: Router<RequestState>, { issuer, basePath }: IssuerRoutesParts): void {
  if (issuer === undefined) return
  router.get('/.well-known/openid-configuration', (ctx: Context) => {
    ctx.set({ 'content-type': 'application/json', 'cache-control': 'no-cache, private' })
    ctx.body = JSON.stringify({
      issuer: issuer.issuer,
      jwks_uri: `${ctx.protocol}://${ctx.host}${basePath}/openid/v1/jwks`,
      response_types_supported: ['id_token'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: [issuer.algorithm],
    })
  })
  router.get('/openid/v1/jwks', async (ctx: Context) => {
    const keys = JSON.stringify(await issuer.publicKeys())
    // A new key is listed for longer before it signs.
    ctx.set({ 'content-type': 'application/jwk-set+json', 'cache-control': 'public, max-age=3600' })
    ctx.body = keys
  })
}
