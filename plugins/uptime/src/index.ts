/**
 * Monitors URLs. The plugin requests the URL of each `Probe` at its interval and writes the result to the probe's
 * status. It is a real plugin and an example for authors; each file is one concept:
 *
 *     probe.ts        the model: schema, indexes, columns
 *     check.ts        one HTTP request and its result
 *     reconciler.ts   when to check, the status, and the clean-up
 *     journal.ts      state outside of the API
 *     summary.ts      a custom route
 *     ../pages/       what the plugin adds to the console
 *
 * The settings are those of the SDK's `TargetPolicy`, which decides what probes may request.
 *
 * `UPTIME_JOURNAL_DIR` names the folder of the journal. (The prefix `SETPOINT_` is reserved for the server, which warns
 * about unknown settings.)
 */
import { definePlugin, type Plugin, TargetPolicy, targetSettings } from '@setpoint/controller-runtime'
import { Journal, journalFolder } from './journal.ts'
import { Probe } from './probe.ts'
import { superviseProbes } from './reconciler.ts'
import { handleSummary } from './summary.ts'

export { Probe, type ProbeObject, type ProbeState, type ProbeStatus } from './probe.ts'

/** Creates the plugin with another journal. */
export function uptime(journal: Journal): Plugin {
  return definePlugin({
    name: 'uptime',
    models: [Probe],
    settings: { type: 'object', properties: targetSettings },
    setup(plugin) {
      const policy = new TargetPolicy(plugin.settings)
      plugin.controller(Probe, controller => superviseProbes(controller, { journal, policy }))
      plugin.routes('console.api.uptime.example.com/v1alpha1', routes =>
        routes.get('/summary', handleSummary),
      )
      plugin.pages('/uptime', { folder: new URL('../pages/', import.meta.url) })
      plugin.console(Probe, '/uptime/console.js')
    },
  })
}

export default uptime(new Journal(journalFolder(process.env)))
