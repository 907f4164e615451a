import { X509Certificate } from 'node:crypto'
import { type CancelTimer, type Clock, systemClock } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import type { NamedText } from './flags-files.ts'

export const certificateValidityDefaults = Object.freeze({
  /** The last part of a certificate's life in which it should have been renewed. cert-manager renews after two thirds. */
  lastPart: 0.1,
  /** Longest time of that part in milliseconds, for certificates of several years. */
  lastPartMs: 30 * 24 * 3_600_000,
  /** Milliseconds between two checks. */
  checkMs: 60_000,
  /** Milliseconds until a lasting problem is logged again. */
  repeatMs: 24 * 3_600_000,
})

/**
 * Logs when a certificate expires soon, has expired or is not valid yet. The peer refuses an invalid one in the handshake,
 * and does not say why.
 */
export class CertificateValidity {
  readonly #consequence: string
  readonly #log: Logger
  readonly #clock: Clock
  #certificate: { readonly path: string; readonly from: number; readonly to: number } | undefined
  #logged: { readonly problem: string; readonly at: number } | undefined
  #cancel: CancelTimer = () => {}

  /** @param consequence who refuses the certificate once it is invalid */
  constructor(consequence: 'clients refuse it' | 'etcd refuses it', log: Logger, clock: Clock = systemClock) {
    this.#consequence = consequence
    this.#log = log
    this.#clock = clock
  }

  /** Checks this certificate, the first one of a PEM file, from now on. @throws Error if it cannot be read */
  watch({ path, text }: NamedText): void {
    const { validFrom, validTo } = new X509Certificate(text)
    this.#certificate = { path, from: Date.parse(validFrom), to: Date.parse(validTo) }
    this.#logged = undefined
    this.#check()
  }

  close(): void {
    this.#cancel()
  }

  #check(): void {
    this.#cancel()
    this.#cancel = this.#clock.setTimeout(() => this.#check(), certificateValidityDefaults.checkMs, {
      unref: true,
    })
    if (this.#certificate === undefined) return
    const { path, from, to } = this.#certificate
    const { lastPart, lastPartMs, repeatMs } = certificateValidityDefaults
    const now = this.#clock.now()
    const report = (level: 'warn' | 'error', problem: string) => {
      const at = this.#clock.monotonic()
      if (this.#logged?.problem === problem && at - this.#logged.at < repeatMs) return
      this.#logged = { problem, at }
      this.#log[level]({ path, validFrom: new Date(from), validTo: new Date(to) }, problem)
    }
    if (now > to) report('error', `the certificate has expired, ${this.#consequence}`)
    else if (now < from)
      report('error', `the certificate is not valid yet, ${this.#consequence}; check the clock`)
    else if (to - now < Math.min((to - from) * lastPart, lastPartMs))
      report('warn', `the certificate expires soon, then ${this.#consequence}`)
  }
}
