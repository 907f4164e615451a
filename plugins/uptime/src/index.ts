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
import { type Clock, definePlugin, type Plugin, systemClock } from '@setpoint/controller-runtime'
import { Journal } from './journal.ts'
import { Probe } from './probe.ts'
import { superviseProbes } from './reconciler.ts'
import { handleSummary } from './summary.ts'

export { Probe, type ProbeObject, type ProbeState, type ProbeStatus } from './probe.ts'

/** The plugin with another journal or clock than the default export has. */
export function uptime(journal: Journal, clock: Clock = systemClock): Plugin {
  return definePlugin({
    name: 'uptime',
    models: [Probe],
    setup(plugin) {
      plugin.controller(Probe, controller => superviseProbes(controller, { journal, clock }))
      plugin.routes('console.api.uptime.example.com/v1alpha1', routes =>
        routes.get('/summary', handleSummary),
      )
    },
  })
}

export default uptime(new Journal(process.env.UPTIME_JOURNAL_DIR || join(tmpdir(), 'setpoint-uptime')))
