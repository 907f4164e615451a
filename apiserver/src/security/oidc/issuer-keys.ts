import { readFile } from 'node:fs/promises'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import type { JWTVerifyGetKey, LocalJWKSet } from 'jose'
import type { Logger } from '../../log/index.ts'
import { fetchJson } from './fetch-json.ts'

export const issuerKeysDefaults = Object.freeze({
  /** Milliseconds between two fetches in the background, which drop keys that the issuer has removed. */
  refreshMs: 10 * 60_000,
  /**
   * Milliseconds between two fetches that bring nothing new, doubled up to the second. They bound what tokens with
   * unknown keys cost the issuer, and what an outage costs this server.
   */
  backOffMs: 1_000,
  longestBackOffMs: 60_000,
})

interface Options {
  readonly issuer: string
  /** File with CA certificates (PEM), read at each fetch. Default: those of the system. */
  readonly caFile: string | undefined
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * The public keys of an issuer.
 *
 *     unknown ──fetched──▶ known ──refreshMs, or a token with an unknown key: fetched──▶ known
 *
 * One fetch is in flight at a time. After a failure the known keys stay in use, and only tokens with unknown keys wait
 * or get 503.
 */
export class IssuerKeys {
  readonly #options: Options
  readonly #clock: Clock
  #keys: LocalJWKSet | undefined
  #fetchedAt = 0
  #fetching: Promise<void> | undefined
  /** The monotonic time of the next fetch for an unknown key. */
  #notBefore = 0
  #backOffMs = 0
  #failingSince: number | undefined

  constructor(options: Options) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  /** Seconds since the keys could not be fetched; 0 if the last fetch has succeeded. */
  get failingSeconds(): number {
    return this.#failingSince === undefined ? 0 : (this.#clock.monotonic() - this.#failingSince) / 1000
  }

  /** Fetches the keys unless they are new. Never rejects: a failure is logged, and the next token tries again. */
  async refresh(): Promise<void> {
    const age = this.#clock.monotonic() - this.#fetchedAt
    if (this.#keys !== undefined && age < issuerKeysDefaults.refreshMs) return
    if (this.#mayFetch) await this.#fetch().catch(() => {})
  }

  /**
   * Returns the key of a token. Rejects with ApiError 503 if it is unknown and cannot be fetched, or with jose's error.
   */
  readonly get: JWTVerifyGetKey = async (header, token) => {
    void this.refresh()
    try {
      if (this.#keys !== undefined) return await this.#keys(header, token)
    } catch (error) {
      if (!isUnknownKey(error)) throw error
    }
    if (this.#fetching !== undefined || this.#mayFetch) await this.#fetch().catch(() => {})
    if (this.#failingSince !== undefined || this.#keys === undefined) throw this.#unavailable()
    const key = await this.#keys(header, token)
    this.#backOffMs = 0
    this.#notBefore = 0
    return key
  }

  get #mayFetch(): boolean {
    return this.#clock.monotonic() >= this.#notBefore
  }

  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchNow().finally(() => {
      this.#fetching = undefined
    })
    return this.#fetching
  }

  async #fetchNow(): Promise<void> {
    const { issuer, caFile, log } = this.#options
    const { backOffMs, longestBackOffMs } = issuerKeysDefaults
    try {
      const { createLocalJWKSet } = await import('jose')
      const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8')
      const found = await fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, ca)
      const document = await fetchJson(keysUrlOf(found, issuer), ca)
      this.#keys = createLocalJWKSet(keySetOf(document))
      this.#fetchedAt = this.#clock.monotonic()
      if (this.#failingSince !== undefined)
        log.info({ issuer }, 'fetched the keys of the issuer after a failure')
      this.#failingSince = undefined
    } catch (error) {
      this.#failingSince ??= this.#clock.monotonic()
      log.warn({ issuer, err: error }, 'failed to fetch the keys of the issuer')
      throw error
    } finally {
      const now = this.#clock.monotonic()
      const isFirst = this.#backOffMs === 0 || now - this.#notBefore > longestBackOffMs
      this.#backOffMs = isFirst ? backOffMs : Math.min(longestBackOffMs, 2 * this.#backOffMs)
      this.#notBefore = now + this.#backOffMs
    }
  }

  #unavailable(): ApiError {
    const retryAfterSeconds = Math.max(1, Math.ceil((this.#notBefore - this.#clock.monotonic()) / 1000))
    const message = `cannot check the token: the keys of its issuer ${this.#options.issuer} cannot be fetched`
    return new ApiError('ServiceUnavailable', message, { retryAfterSeconds })
  }
}

function isUnknownKey(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_JWKS_NO_MATCHING_KEY'
}

/** @throws Error */
function keysUrlOf(configuration: unknown, issuer: string): string {
  const { issuer: named, jwks_uri: url } = isRecord(configuration) ? configuration : {}
  if (named !== issuer)
    throw new Error(`the discovery document is of the issuer ${JSON.stringify(named)}, not of ${issuer}`)
  if (typeof url !== 'string' || !url.startsWith('https://'))
    throw new Error(`the discovery document of ${issuer} has no jwks_uri with https`)
  return url
}

/** @throws Error */
function keySetOf(document: unknown): { keys: Record<string, unknown>[] } {
  const keys = isRecord(document) ? document.keys : undefined
  if (!Array.isArray(keys) || !keys.every(isRecord)) throw new Error('the key set has no list of keys')
  return { keys }
}
