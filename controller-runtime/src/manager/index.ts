/**
 * What holds controllers together: a `Manager` starts and drains them over shared informers, on one of several
 * processes at a time where they elect one by a `Lease`; the plugin host runs a plugin's `setup` and hands its
 * controllers to a manager and its routes to whoever serves them.
 */
export type { EventLoopDelayMeter } from './event-loop-watch.ts'
export { FencedTransport } from './fenced-transport.ts'
export type { HealthCheck, ManagerHealth } from './health.ts'
export { LeadershipLostError } from './leader-election.ts'
export { type LeaderElectionOptions, leaderElectionDefaults } from './leader-election-options.ts'
export { type Lease, type LeaseModel, type LeaseSpec, leaseModel } from './lease.ts'
export { createManager, type Leadership, Manager, type ManagerOptions, managerDefaults } from './manager.ts'
export { type HostedPlugin, type PluginHostOptions, pluginHostDefaults, setupPlugin } from './plugin-host.ts'
export { type Runnable, type RunnableContext, runnableDefaults } from './runnable.ts'
