import type { Router } from '@koa/router'
import type { Context, RequestState } from './request-state.ts'

/** How people can sign in, for pages that ask them to. Nothing in it is secret. */
export interface SignIn {
  /** False for a server that accepts local callers without credentials. */
  readonly required: boolean
  /** The OpenID Connect issuers, whose ID tokens for the client are accepted. */
  readonly issuers: readonly { readonly issuer: string; readonly clientId: string }[]
}

export interface SignInRoutesParts {
  /** Default: no credentials are required. */
  readonly signIn?: SignIn
}

/** Serves how people can sign in. */
export function addSignInRoutes(
  router: Router<RequestState>,
  { signIn = { required: false, issuers: [] } }: SignInRoutesParts,
): void {
  const body = JSON.stringify(signIn)
  router.get('/sign-in', (ctx: Context) => {
    ctx.set({ 'content-type': 'application/json', 'cache-control': 'no-cache' })
    ctx.body = body
  })
}
