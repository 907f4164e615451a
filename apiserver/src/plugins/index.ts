/**
 * Plugins in this server: loading their folders, starting and stopping them, applying the YAML that they ship, and
 * their status objects.
 *
 * A plugin's fault stays its own: it fails with a reason in its `Plugin` object, and the server goes on.
 */
export * from './actor.ts'
export * from './actor-writes.ts'
export * from './admit-reads.ts'
export * from './built-in-console.ts'
export * from './code-frame.ts'
export * from './controllers-runner.ts'
export { stackWithin } from './error-place.ts'
export * from './fault-owner.ts'
export * from './index-claim.ts'
export * from './index-report.ts'
export * from './kind-runner.ts'
export * from './load-plugin.ts'
export * from './load-plugins.ts'
export * from './loopback-transport.ts'
export * from './plugin-actor.ts'
export * from './plugin-environment.ts'
export * from './plugin-kind.ts'
export { PluginLoadError } from './plugin-package.ts'
export * from './plugin-runner.ts'
export * from './plugin-settings.ts'
export * from './plugin-source.ts'
export * from './plugin-specs.ts'
export * from './plugin-status.ts'
export * from './plugins.ts'
export * from './served-kinds.ts'
export * from './unpack-archive.ts'
