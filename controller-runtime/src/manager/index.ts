/**
 * What holds controllers together: a `Manager` starts and drains them over shared informers; the plugin host runs a
 * plugin's `setup` and hands its controllers to a manager and its routes to whoever serves them.
 */
export { createManager, Manager, type ManagerOptions, managerDefaults } from './manager.ts'
export { type HostedPlugin, type PluginHostOptions, pluginHostDefaults, setupPlugin } from './plugin-host.ts'
