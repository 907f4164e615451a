/**
 * Garbage collection of dependents. A `Collector` follows the metadata of every kind of a `KindSource`, deletes objects
 * whose owners are gone, and completes deletions that wait for dependents. Only a live read of a kind that responds
 * shows that an owner is gone.
 */
export { Collector, type CollectorOptions } from './collector.ts'
export { type CollectorCounts, collectorDefaults } from './defaults.ts'
export { DiscoveredKinds, discoveredKindsDefaults } from './discovered-kinds.ts'
export { fixedKinds, type KindSource } from './kind-source.ts'
export { type OrphanRecord, type OrphanRecordSpec, orphanRecordModel } from './orphan-records.ts'
