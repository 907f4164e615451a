import {
  type Clock,
  isApiError,
  type MergePatch,
  type ReconcileContext,
  type ReconcileResult,
} from '@setpoint/controller-runtime'
import { type CheckResult, checkUrl } from './check.ts'
import type { Journal } from './journal.ts'
import { intervalMs, Probe, type ProbeObject, type ProbeStatus, probeDefaults, timeoutMs } from './probe.ts'

/** Requests the URLs of probes, writes what was found into their status, and comes back after the interval. */
export class ProbeReconciler {
  readonly #journal: Journal
  readonly #clock: Clock

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal
    this.#clock = clock
  }

  /** Checks the probe if it is due, and answers when it is due next. */
  async reconcile(probe: ProbeObject, { client, signal, log }: ReconcileContext): Promise<ReconcileResult> {
    const waitMs = dueInMs(probe, this.#clock.now())
    if (waitMs > 0) return { requeueAfterMs: waitMs }

    const { spec } = probe
    const checkedAt = this.#clock.now()
    const startedAt = this.#clock.monotonic()
    const result = await checkUrl(
      { url: spec.url, timeoutMs: timeoutMs(probe), expectStatus: spec.expectStatus },
      signal,
      this.#clock,
    )
    const time = new Date(checkedAt).toISOString()
    try {
      // A patch rather than a replacement: it does not conflict with somebody who changes the spec meanwhile. Given
      // the object, it never touches a later probe of the same name.
      await client.patchStatus(Probe, probe, statusPatch(probe, result, time), { signal })
    } catch (error) {
      // Deleted meanwhile, by somebody who took our finalizer away.
      if (isApiError(error, 'NotFound')) return {}
      throw error
    }
    await this.#note(probe, result, time, log)
    // From the start of this check, so that slow answers do not stretch the interval.
    return { requeueAfterMs: Math.max(0, intervalMs(probe) - (this.#clock.monotonic() - startedAt)) }
  }

  /** Removes what is kept of the probe outside of it. */
  async finalize({ metadata }: ProbeObject): Promise<void> {
    await this.#journal.remove(metadata.uid)
  }

  /** A disk that is full keeps the journal from growing, not the probes from being checked. */
  async #note(
    probe: ProbeObject,
    result: CheckResult,
    time: string,
    log: ReconcileContext['log'],
  ): Promise<void> {
    const { metadata, spec, status } = probe
    if (status?.state === result.state) return
    log.info({ from: status?.state, to: result.state, reason: result.reason }, result.message)
    try {
      await this.#journal.append(metadata.uid, {
        time,
        probe: metadata.name,
        url: spec.url,
        from: status?.state ?? null,
        to: result.state,
        message: result.message,
      })
    } catch (error) {
      log.warn({ err: error }, 'the change of state was not written to the journal')
    }
  }
}

/**
 * Milliseconds until a probe is to be checked again; 0: now.
 *
 *     never checked, or its spec has changed since    now
 *     otherwise                                       the rest of the interval since the last check
 *
 * It is read from the status, not from a timer: so a restart, a changed label or a second controller checks nothing
 * early.
 */
export function dueInMs(probe: ProbeObject, nowMs: number): number {
  const { metadata, status } = probe
  if (status?.lastCheckTime === undefined || status.observedGeneration !== metadata.generation) return 0
  const sinceMs = nowMs - Date.parse(status.lastCheckTime)
  // A check in the future: the wall clock was set back, and waiting for it could take for ever.
  if (!(sinceMs >= 0)) return 0
  return Math.max(0, intervalMs(probe) - sinceMs)
}

/** What a check makes of the status: every field that it concerns, null for those that it has no value for. */
function statusPatch(
  { metadata, status = {} }: ProbeObject,
  { state, reason, message, httpStatus, latencyMs }: CheckResult,
  time: string,
): MergePatch<ProbeStatus> {
  const answer = {
    ...(httpStatus !== undefined && { httpStatus }),
    ...(latencyMs !== undefined && { latencyMs }),
  }
  return {
    state,
    reason,
    message,
    httpStatus: httpStatus ?? null,
    latencyMs: latencyMs ?? null,
    lastCheckTime: time,
    lastTransitionTime: status.state === state ? (status.lastTransitionTime ?? time) : time,
    consecutiveFailures: state === 'Up' ? 0 : (status.consecutiveFailures ?? 0) + 1,
    observedGeneration: metadata.generation,
    history: [{ time, state, reason, ...answer }, ...(status.history ?? [])].slice(
      0,
      probeDefaults.historyLength,
    ),
  }
}
