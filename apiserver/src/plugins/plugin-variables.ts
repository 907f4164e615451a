/** The prefix of the environment variables with settings of plugins. */
export const pluginVariables = 'SETPOINT_PLUGIN_'

/** Returns the prefix of one plugin's environment variables. */
export function environmentPrefix(plugin: string): string {
  return `${pluginVariables}${plugin.toUpperCase().replaceAll('-', '_')}_`
}

/**
 * Returns true for the name of a variable that Kubernetes sets in every pod for each Service. A Service may be called
 * `setpoint`, or `setpoint-plugin-...`, so such a name is not reported as unknown.
 */
export function isServiceLink(name: string): boolean {
  return /_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/.test(name)
}
