import type { Clock, ControllerBuilder, MergePatch, ReconcileContext } from '@setpoint/controller-runtime'
import { type CheckResult, checkUrl } from './check.ts'
import type { Journal } from './journal.ts'
import { intervalMs, Probe, type ProbeObject, type ProbeStatus, probeDefaults, timeoutMs } from './probe.ts'

/** Probes checked at once. A check mostly waits; the bound is for sockets, and for starts with every probe due. */
const concurrency = 50

/** The longest timeout of a probe (60 s), and time to write the status. */
const runTimeoutMs = 75_000

/** The longest pause after a run that failed: the shortest interval of a probe, so that no check is later than that. */
const backoffMaxMs = 5_000

/** Requests the URLs of probes, writes what was found into their status, and comes back after the interval. */
export function superviseProbes(
  controller: ControllerBuilder<ProbeObject>,
  { journal, clock }: { journal: Journal; clock: Clock },
): void {
  controller
    .concurrency(concurrency)
    .timeoutMs(runTimeoutMs)
    .retry({ backoffMaxMs })
    .reconcile(async (probe, context) => {
      const present = dueInMs(probe, clock) > 0 ? probe : await check(probe, context, clock)
      // Also where nothing was due: the last run, or process, may have ended before it wrote the line.
      await note(present, journal)
      return { requeueAfterMs: dueInMs(present, clock) }
    })
    .finalize('uptime.example.com/journal', ({ metadata }) => journal.remove(metadata.uid))
}

/** Checks the probe. @returns it with the status that says so. */
async function check(
  probe: ProbeObject,
  { client, signal, log }: ReconcileContext,
  clock: Clock,
): Promise<ProbeObject> {
  const { spec, status, metadata } = probe
  const time = new Date(clock.now()).toISOString()
  const request = { url: spec.url, timeoutMs: timeoutMs(probe), expectStatus: spec.expectStatus }
  const result = await checkUrl(request, signal, clock)
  if (status?.state !== result.state)
    log.info({ from: status?.state, to: result.state, verdict: result.reason }, result.message)
  // Only of the probe that was checked: not of a changed one, nor of a later one of its name.
  return client.patchStatus(Probe, probe, statusPatch(probe, result, time), { version: metadata.version })
}

/** Writes down since when the probe stands as it does. @throws the file system's error: the check was written before. */
async function note({ metadata, spec, status }: ProbeObject, journal: Journal): Promise<void> {
  const { state, message = '', lastTransitionTime } = status ?? {}
  if (state === undefined || lastTransitionTime === undefined) return
  const change = { time: lastTransitionTime, probe: metadata.name, url: spec.url, to: state, message }
  await journal.note(metadata.uid, change)
}

/**
 * Milliseconds until a probe is to be checked again; 0: now.
 *
 *     never checked, or its spec has changed since    now
 *     otherwise                                       the rest of the interval since the last check began
 *
 * It is read from the status, not from a timer: so a restart, a changed label or a second controller checks nothing
 * early.
 */
export function dueInMs(probe: ProbeObject, clock: Pick<Clock, 'now'>): number {
  const { metadata, status } = probe
  if (status?.lastCheckTime === undefined || status.observedGeneration !== metadata.generation) return 0
  const sinceMs = clock.now() - Date.parse(status.lastCheckTime)
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
