import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'

/** Registers how long the token file has not been usable. */
export function describeTokenFile(registry: Registry, tokens: { readonly failingSeconds: number }): void {
  new ScrapedMetrics(registry).gauge(
    'setpoint_token_file_failing_seconds',
    'Seconds since the token file could last be read and used; 0 if it can. Tokens are refused after 600 s.',
    [],
    () => [[tokens.failingSeconds]],
  )
}
