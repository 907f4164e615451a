import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'

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
  const scraped = new ScrapedMetrics(registry)
  scraped.counter(
    'authentication_attempts',
    'Attempts to authenticate: failure means that the credentials are invalid, error that they could not be checked.',
    ['method', 'result'],
    () => Array.from(counts, ({ method, result, count }) => [count, method, result]),
  )
  scraped.counter(
    'authentication_token_cache_request_total',
    'Lookups of JSON Web Tokens in the cache of verified ones.',
    ['status'],
    () => Object.entries(verified.counts).map(([status, count]) => [count, status]),
  )
  scraped.gauge('authentication_token_cache_tokens', 'Tokens in the cache of verified ones.', [], () => [
    [verified.size],
  ])
  if (issuers.length === 0) return
  scraped.gauge(
    'setpoint_oidc_issuer_failing_seconds',
    'Seconds since the keys of an OpenID Connect issuer could last be fetched; 0 if the last fetch has succeeded.',
    ['issuer'],
    () => issuers.map(({ issuer, failingSeconds }) => [failingSeconds, issuer]),
  )
}
