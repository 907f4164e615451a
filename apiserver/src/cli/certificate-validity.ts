import { X509Certificate } from 'node:crypto'
import { type CancelTimer, type Clock, systemClock } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import { authoritiesIn } from './flags-files.ts'

export const certificateValidityDefaults = Object.freeze({
  /**
   * The last part of a certificate's life in which it should have been renewed. cert-manager renews after two thirds.
   */
  lastPart: 0.1,
  /** Longest time of that part in milliseconds, for certificates of several years. */
  lastPartMs: 30 * 24 * 3_600_000,
  /** Milliseconds between two checks. */
  checkMs: 60_000,
  /** Milliseconds until a lasting problem is logged again. */
  repeatMs: 24 * 3_600_000,
})

/** What happens once a certificate is not valid. The peer refuses it in the handshake, and does not say why. */
const consequences = Object.freeze({
  server: 'clients refuse it',
  'client-ca': 'certificates of clients are refused',
  'etcd-client': 'etcd refuses it',
  'etcd-ca': 'certificates of etcd are refused',
  'server-ca': "the server's certificate is refused",
})

/** A certificate of this process, or the authorities that it accepts. */
export type CertificateName = keyof typeof consequences

interface Watched {
  readonly path: string
  /** Milliseconds since the epoch. */
  readonly from: number
  readonly to: number
  logged?: { readonly problem: string; readonly at: number }
}

/** Logs when a certificate expires soon, has expired or is not valid yet, and tells when each one expires. */
export class CertificateValidity {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #watched = new Map<CertificateName, Watched>()
  #cancel: CancelTimer = () => {}

  constructor(log: Logger, clock: Clock = systemClock) {
    this.#log = log
    this.#clock = clock
    this.#schedule()
  }

  /**
   * Checks a certificate, the first one of a PEM file, from now on. Of several authorities, the one that is valid
   * longest counts: until then some certificates are accepted.
   * @throws Error if it cannot be read
   */
  watch(name: CertificateName, { path, text }: { readonly path: string; readonly text: string }): void {
    const all = name.endsWith('-ca') ? authoritiesIn(text) : [new X509Certificate(text)]
    const terms = all.map(({ validFrom, validTo }) => ({
      from: Date.parse(validFrom),
      to: Date.parse(validTo),
    }))
    const last = terms.reduce((longest, each) => (each.to > longest.to ? each : longest))
    const watched = { path, ...last }
    this.#watched.set(name, watched)
    this.#check(name, watched)
  }

  /** Returns when each certificate expires, in seconds since the epoch. */
  expirations(): { readonly certificate: CertificateName; readonly seconds: number }[] {
    return Array.from(this.#watched, ([certificate, { to }]) => ({ certificate, seconds: to / 1000 }))
  }

  close(): void {
    this.#cancel()
  }

  #schedule(): void {
    const check = () => {
      for (const [name, watched] of this.#watched) this.#check(name, watched)
      this.#schedule()
    }
    this.#cancel = this.#clock.setTimeout(check, certificateValidityDefaults.checkMs, { unref: true })
  }

  #check(name: CertificateName, watched: Watched): void {
    const { path, from, to, logged } = watched
    const { lastPart, lastPartMs, repeatMs } = certificateValidityDefaults
    const now = this.#clock.now()
    const consequence = consequences[name]
    const report = (level: 'warn' | 'error', problem: string) => {
      const at = this.#clock.monotonic()
      if (logged?.problem === problem && at - logged.at < repeatMs) return
      watched.logged = { problem, at }
      this.#log[level]({ path, validFrom: new Date(from), validTo: new Date(to) }, problem)
    }
    if (now > to) report('error', `the certificate has expired, ${consequence}`)
    else if (now < from) report('error', `the certificate is not valid yet, ${consequence}; check the clock`)
    else if (to - now < Math.min((to - from) * lastPart, lastPartMs))
      report('warn', `the certificate expires soon, then ${consequence}`)
  }
}
