/**
 * Watches over URLs. A `Probe` names one; the plugin requests it at its interval and writes into the probe's status
 * what it found. It is a real plugin and the example for authors; each file is one concept:
 *
 *     probe.ts        the model: schema, indexes, columns
 *     check.ts        one HTTP request, and what it shows
 *     reconciler.ts   when to check, what becomes of the status, what to clean up
 *     journal.ts      what is kept outside of the objects
 *     summary.ts      a route of its own
 *
 * The journal is kept in the folder that `UPTIME_JOURNAL_DIR` names, by default one among those for temporary files. (`SETPOINT_*`
 * are the server's settings, and it warns of those that it does not know.)
 */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { definePlugin, systemClock } from '@setpoint/controller-runtime'
import { Journal } from './journal.ts'
import { Probe } from './probe.ts'
import { ProbeReconciler } from './reconciler.ts'
import { handleSummary } from './summary.ts'

export { Probe, type ProbeObject, type ProbeState, type ProbeStatus } from './probe.ts'

/** Probes checked at once. A check mostly waits; the bound is for sockets, and for starts with every probe due. */
const concurrency = 50

/** The longest timeout of a probe (60 s), and time to write the status. */
const runTimeoutMs = 75_000

export default definePlugin({
  name: 'uptime',
  models: [Probe],
  setup(plugin) {
    const folder = process.env.UPTIME_JOURNAL_DIR || join(tmpdir(), 'setpoint-uptime')
    const reconciler = new ProbeReconciler(new Journal(folder), systemClock)
    plugin.controller(Probe, controller =>
      controller
        .reconcile((probe, context) => reconciler.reconcile(probe, context))
        .finalize('uptime.example.com/journal', probe => reconciler.finalize(probe))
        .concurrency(concurrency)
        .timeoutMs(runTimeoutMs),
    )
    plugin.routes('console.api.uptime.example.com/v1alpha1', routes => routes.get('/summary', handleSummary))
  },
})
