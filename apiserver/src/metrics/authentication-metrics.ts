import { Counter, Gauge, type Registry } from 'prom-client'

interface Sources {
  /** Attempts by method and result. */
  readonly counts: Iterable<{ readonly method: string; readonly result: string; readonly count: number }>
  /** The cache of verified tokens. */
  readonly verified: {
    readonly size: number
    readonly counts: Readonly<Record<'hit' | 'miss', number>>
  }
  readonly issuers: readonly { readonly issuer: string; readonly failingSeconds: number }[]
}

/** Registers how callers authenticate. */
export function describeAuthentication(registry: Registry, { counts, verified, issuers }: Sources): void {
  const registers = [registry]
  new Counter({
    name: 'authentication_attempts',
    help: 'Attempts to authenticate: failure means that the credentials are invalid, error that they could not be checked.',
    labelNames: ['method', 'result'],
    registers,
    collect() {
      this.reset()
      for (const { method, result, count } of counts) this.inc({ method, result }, count)
    },
  })
  new Counter({
    name: 'authentication_token_cache_request_total',
    help: 'Lookups of JSON Web Tokens in the cache of verified ones.',
    labelNames: ['status'],
    registers,
    collect() {
      this.reset()
      for (const [status, count] of Object.entries(verified.counts)) this.inc({ status }, count)
    },
  })
  new Gauge({
    name: 'authentication_token_cache_tokens',
    help: 'Tokens in the cache of verified ones.',
    registers,
    collect() {
      this.set(verified.size)
    },
  })
  if (issuers.length === 0) return
  new Gauge({
    name: 'setpoint_oidc_issuer_failing_seconds',
    help: 'Seconds since the keys of an OpenID Connect issuer could last be fetched; 0 if the last fetch has succeeded.',
    labelNames: ['issuer'],
    registers,
    collect() {
      for (const { issuer, failingSeconds } of issuers) this.set({ issuer }, failingSeconds)
    },
  })
}
