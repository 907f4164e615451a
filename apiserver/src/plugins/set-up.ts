import { errorMessage } from '@setpoint/controller-runtime/api'
import { type HostedPlugin, type PluginHostOptions, setupPlugin } from '@setpoint/controller-runtime/internal'
import { secrets } from '../log/index.ts'
import { placeOf } from './error-place.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import { readSettings, type SettingsSources } from './plugin-settings.ts'

/** A plugin cannot start, because of its settings, its declarations or its `setup`. The message has no secret. */
export class PluginStartError extends Error {
  override readonly name = 'PluginStartError'
}

/** Values for the settings of plugins, and the plugins that they may be for. */
export interface PluginSettings extends SettingsSources {
  /** The names of all plugins, as far as they are known. */
  names(): readonly string[]
}

/**
 * Reads the settings of a plugin and runs its `setup`.
 * @throws SettingsError, or PluginStartError with the place in the plugin
 */
export async function setUp(
  { dir, plugin }: LoadedPlugin,
  settings: PluginSettings,
  options: PluginHostOptions,
): Promise<HostedPlugin> {
  const values = readSettings(plugin, settings, settings.names())
  return setupPlugin(plugin, { ...options, settings: values }).catch(error => {
    const message = redactedMessageOf(error, 'it has thrown ')
    const place = placeOf(error, dir)
    const where = place === undefined ? '' : ` (${place})`
    throw new PluginStartError(`its setup has failed: ${message}${where}`, { cause: error })
  })
}

/** Returns the message of an error of a plugin, without secrets. */
export function redactedMessageOf(error: unknown, prefix = ''): string {
  return secrets.redact(`${error instanceof Error ? '' : prefix}${errorMessage(error)}`)
}
