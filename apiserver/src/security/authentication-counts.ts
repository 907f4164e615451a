/** The ways to authenticate. `none`: the request has no credentials. */
const authenticationMethods = ['certificate', 'service-account', 'oidc', 'token-file', 'none'] as const
export type AuthenticationMethod = (typeof authenticationMethods)[number]

/** `failure`: the credentials are invalid. `error`: they could not be checked. */
type AuthenticationResult = 'success' | 'failure' | 'error'

/** Counts attempts to authenticate, by method and result. */
export class AuthenticationCounts {
  readonly #counts = new Map<AuthenticationMethod, Record<AuthenticationResult, number>>(
    authenticationMethods.map(method => [method, { success: 0, failure: 0, error: 0 }]),
  )

  count(method: AuthenticationMethod, result: AuthenticationResult): void {
    const counts = this.#counts.get(method)
    if (counts !== undefined) counts[result]++
  }

  *[Symbol.iterator](): Iterator<{ method: AuthenticationMethod; result: string; count: number }> {
    for (const [method, counts] of this.#counts) {
      for (const [result, count] of Object.entries(counts)) yield { method, result, count }
    }
  }
}
