import type { Logger } from '@setpoint/controller-runtime'
import { setupPlugin } from '@setpoint/controller-runtime/internal'
import type { CustomRoutes } from '../http/index.ts'
import { consoleFolder, loadPlugin } from './load-plugin.ts'
import type { LoopbackTransport } from './loopback-transport.ts'
import type { PluginSource } from './plugin-source.ts'

interface ConsoleParts {
  readonly routes: CustomRoutes
  readonly transport: LoopbackTransport
  readonly log: Logger
  /** Aborted when the server stops. */
  readonly signal: AbortSignal
}

/**
 * Serves the console of the installation. It is written as a plugin, but belongs to the program: it has no `Plugin`
 * object, and readiness does not depend on it. If it cannot be loaded, the server goes on without it.
 * @param named the plugins of `--plugin`. If the console is among them, it runs as one of them
 */
export async function startConsole(
  named: readonly PluginSource[] | undefined,
  { routes, transport, log, signal }: ConsoleParts,
): Promise<void> {
  try {
    const folder = await consoleFolder()
    if (folder === undefined || named?.some(({ path }) => path === folder)) return
    const { plugin } = await loadPlugin(folder, { log })
    const hosted = await setupPlugin(plugin, { transport, log })
    signal.addEventListener('abort', () => void hosted.stop(), { once: true })
    await routes.pages.read(hosted)
    routes.add(hosted)
  } catch (error) {
    log.error({ err: error }, 'failed to load the console')
  }
}
