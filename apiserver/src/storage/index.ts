/**
 * Where bytes live. One small interface over a log of revisions, and two stores behind it that pass one conformance
 * suite: etcd, for several servers, and an embedded one, for one. Nothing here knows what an object is.
 */

export * from './compactor.ts'
export * from './contract.ts'
