/**
 * Stores keys and opaque bytes as a log of revisions. `Storage` has two implementations that pass one conformance
 * suite: etcd for several servers, and the embedded store for a single one.
 */

export * from './compactor.ts'
export * from './contract.ts'
export * from './fullness.ts'
export * from './pages.ts'
export * from './replacement.ts'
export * from './space-watch.ts'
export * from './store-format.ts'
export * from './undecrypted.ts'
