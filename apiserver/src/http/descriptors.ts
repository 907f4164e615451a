import { readFileSync } from 'node:fs'
import type { WatchLimits } from '../watch/index.ts'

export const descriptorDefaults = Object.freeze({
  /** File descriptors that connections leave free: for files, the store, etcd, and requests of plugins. */
  reserved: 128,
})

/**
 * Returns the number of connections that leave `reserved` descriptors free, but at least half of the process's limit.
 * Infinite if the limit is unknown: only Linux has `/proc/self/limits`.
 */
export function maxConnections(limits: string = readLimits()): number {
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  if (soft === undefined) return Infinity
  const descriptors = Number(soft)
  return Math.max(descriptors - descriptorDefaults.reserved, Math.ceil(descriptors / 2))
}

/** Bounds watches, which stay open, to three quarters of the connections, and one user's to half of these. */
export function watchLimitsWithin(limits: WatchLimits, most: number = maxConnections()): WatchLimits {
  const watching = Math.floor((most * 3) / 4)
  return {
    connections: Math.min(limits.connections, watching),
    connectionsPerUser: Math.min(limits.connectionsPerUser, Math.floor(watching / 2)),
  }
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
