import type {
  Clock,
  ControllerBuilder,
  DeepReadonly,
  MergePatch,
  ReconcileContext,
  TargetPolicy,
} from '@setpoint/controller-runtime'
import { type CheckResult, checkUrl } from './check.ts'
import type { Journal } from './journal.ts'
import { intervalMs, Probe, type ProbeObject, type ProbeStatus, probeDefaults, timeoutMs } from './probe.ts'

/** Concurrent checks. A check mostly waits; the limit bounds the sockets when all probes are due at a start. */
const concurrency = 50

/** The longest timeout of a probe (60 s), plus time to write the status. */
const runTimeoutMs = 75_000

/** Longest back-off: the shortest interval of a probe, so that no check is later than that. */
const backoffMaxMs = 5_000

/** Builds the controller, which checks probes, writes their status, and requeues them after their interval. */
export function superviseProbes(
  controller: ControllerBuilder<ProbeObject>,
  { journal, policy }: { readonly journal: Journal; readonly policy: TargetPolicy },
): void {
  controller
    .concurrency(concurrency)
    .timeoutMs(runTimeoutMs)
    .retry({ backoffMaxMs })
    .reconcile(async (probe, context) => {
      const { clock } = context
      const present = dueInMs(probe, clock) > 0 ? probe : await check(probe, policy, context)
      // Even if no check was due: an earlier run may have failed before it wrote the journal.
      await note(present, journal)
      return { requeueAfterMs: dueInMs(present, clock) }
    })
    .finalize('uptime.example.com/journal', ({ metadata }) => journal.remove(metadata.uid))
}

/** Checks the probe. @returns the probe with its new status. */
async function check(
  probe: DeepReadonly<ProbeObject>,
  policy: TargetPolicy,
  { client, signal, log, clock }: ReconcileContext,
): Promise<DeepReadonly<ProbeObject>> {
  const { spec, status, metadata } = probe
  const time = new Date(clock.now()).toISOString()
  const request = { url: spec.url, timeoutMs: timeoutMs(probe), expectStatus: spec.expectStatus }
  const result = await checkUrl(request, policy, signal, clock)
  if (status?.state !== result.state)
    log.info({ before: status?.state, cause: result.reason }, `${result.state}: ${result.message}`)
  // Conflicts if the probe has changed or was recreated meanwhile.
  return client.patchStatus(Probe, probe, statusPatch(probe, result, time), { version: metadata.version })
}

/** Records the current state in the journal. @throws the file system's error; the status is written already. */
async function note({ metadata, spec, status }: DeepReadonly<ProbeObject>, journal: Journal): Promise<void> {
  const { state, message = '', lastTransitionTime } = status ?? {}
  if (state === undefined || lastTransitionTime === undefined) return
  const change = { time: lastTransitionTime, probe: metadata.name, url: spec.url, to: state, message }
  await journal.note(metadata.uid, change)
}

/**
 * Returns the milliseconds until the next check of a probe; 0: now.
 *
 *     never checked, or its spec has changed    now
 *     otherwise                                 the rest of the interval since the start of the last check
 *
 * Read from the status rather than a timer, so that a restart, a changed label or a second controller causes no early
 * check.
 */
export function dueInMs(probe: DeepReadonly<ProbeObject>, clock: Pick<Clock, 'now'>): number {
  const { metadata, status } = probe
  if (status?.lastCheckTime === undefined || status.observedGeneration !== metadata.generation) return 0
  const sinceMs = clock.now() - Date.parse(status.lastCheckTime)
  // A check in the future: the wall clock was set back, and the wait could be endless.
  if (!(sinceMs >= 0)) return 0
  return Math.max(0, intervalMs(probe) - sinceMs)
}

/** Returns the patch of the status after a check; null removes fields without a value. */
function statusPatch(
  { metadata, status = {} }: DeepReadonly<ProbeObject>,
  { state, reason, message, httpStatus, latencyMs }: CheckResult,
  time: string,
): MergePatch<ProbeStatus> {
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
    history: [{ time, state, reason, httpStatus, latencyMs }, ...(status.history ?? [])].slice(
      0,
      probeDefaults.historyLength,
    ),
  }
}
