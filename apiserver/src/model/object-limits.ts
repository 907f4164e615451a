import { nameLimits } from '@setpoint/controller-runtime/api'

/**
 * Bounds for the content of one object. A write past one fails with 422. An object stored past a bound can still be
 * read and deleted, and updates may leave the part as large as it is, or make it smaller.
 */
export const objectLimits = Object.freeze({
  /**
   * Parts of an object, as `countParts` counts them, with its managed fields. A write takes up to a microsecond and a
   * half for each, in one turn of the event loop.
   */
  parts: 30_000,
  /** Top-level fields of an object. A write copies them some ten times, up to 0.7 µs for each. */
  topLevelFields: 1000,
  /**
   * Parts of the managed fields of an object. An apply compares those of all managers: up to five microseconds for
   * each.
   */
  managedParts: 10_000,
  /**
   * Values of an object, as `countValues` counts them. To parse one takes up to 0.35 µs, because V8 looks up each short
   * text among all others. To compare one with others that must be distinct takes 0.2 µs.
   */
  values: 100_000,
  /** Every server keeps an index entry for each label. */
  labels: 1000,
  /** Bytes of all annotation keys and values together, as in Kubernetes. */
  annotationBytes: nameLimits.annotationBytes,
  /** Each finalizer names a controller that must act before the object can go. */
  finalizers: 64,
  /** The collector of dependents reads every owner. */
  ownerReferences: 64,
  /** Values in one multi-value index. Every server keeps an index entry for each. */
  indexValues: 1000,
  /** Violations that a response reports. */
  violations: 100,
})

/** What `countParts` counts, in messages. */
export const partsName = 'fields and list items that are objects or lists'

/** What `countValues` counts. */
export const valuesName = 'list items and fields'
