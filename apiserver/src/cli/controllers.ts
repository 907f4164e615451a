import {
  createManager,
  type HostedPlugin,
  HttpTransport,
  type Logger,
  setupPlugin,
} from '@setpoint/controller-runtime'
import { discoverPlugins, loadPlugin } from '../plugins/load-plugin.ts'
import type { ControllersOptions } from './flags.ts'

/** The plugins' controllers in a process of their own, against a server elsewhere. */
export interface RunningControllers {
  /** Finishes the current reconciles and stops. */
  stop(): Promise<void>
}

/**
 * Loads the plugins and runs their controllers: no models, routes or YAML. The server need not be there yet.
 * A plugin that cannot be loaded is reported and left out.
 */
export async function startControllers(
  options: ControllersOptions,
  log: Logger,
): Promise<RunningControllers> {
  const transport = new HttpTransport({ server: options.server })
  const manager = createManager({ transport, log })
  const hosted: HostedPlugin[] = []
  for (const dir of await discoverPlugins(options.plugins)) {
    try {
      const { plugin } = await loadPlugin(dir)
      hosted.push(await setupPlugin(plugin, { transport, log, manager }))
    } catch (error) {
      log.error({ dir, err: error }, 'a plugin cannot be started')
    }
  }
  manager.start()
  return {
    async stop() {
      await manager.stop()
      await Promise.all(hosted.map(plugin => plugin.stop()))
    },
  }
}
