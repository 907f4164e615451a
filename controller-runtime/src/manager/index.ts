/**
 * A `Manager` starts and drains controllers over shared informers. With leader election, one of several processes is
 * active at a time. The plugin host runs a plugin's `setup` and collects its controllers, runnables,
 * schedules and routes.
 */
export type { EventLoopDelayMeter } from './event-loop-watch.ts'
export { GuardedTransport } from './guarded-transport.ts'
export type { HealthCheck, ManagerHealth } from './health.ts'
export { LeadershipLostError } from './leader-election.ts'
export { type LeaderElectionOptions, leaderElectionDefaults } from './leader-election-options.ts'
export { type LeaseSpec, systemNamespace } from './lease.ts'
export { createManager, type Leadership, Manager, type ManagerOptions, managerDefaults } from './manager.ts'
export { type HostedPlugin, type PluginHostOptions, pluginHostDefaults, setupPlugin } from './plugin-host.ts'
export type { RunnableFailure } from './runnable-failures.ts'
export { runnableDefaults } from './runnable-host.ts'
