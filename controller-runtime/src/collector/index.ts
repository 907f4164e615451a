/**
 * What becomes of dependents when their owner goes: a `Collector` follows the metadata of every kind that a
 * `KindSource` names, deletes objects whose owners are gone, and ends deletions that wait for dependents. It concludes
 * that an owner is gone from a live read of a kind that answers, and from nothing else.
 */
export { Collector, type CollectorOptions } from './collector.ts'
export { type CollectorCounts, collectorDefaults } from './defaults.ts'
export { DiscoveredKinds, discoveredKindsDefaults } from './discovered-kinds.ts'
export { fixedKinds, type KindSource } from './kind-source.ts'
export { type OrphanRecord, type OrphanRecordSpec, orphanRecordModel } from './orphan-records.ts'
