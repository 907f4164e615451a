import { readFileSync } from 'node:fs'
import type { WatchLimits } from '../watch/index.ts'

export const descriptorDefaults = Object.freeze({
  /** File descriptors that connections leave free: for files, the store, etcd, and requests of plugins. */
  reserved: 128,
  /**
   * Fewest file descriptors to start with. With half as many, modules of plugins cannot be opened and accepted
   * connections are not served.
   */
  fewest: 128,
})

/**
 * Returns the number of connections that leave `reserved` descriptors free, but at least half of the process's limit.
 * Infinite if the limit is unknown: only Linux has `/proc/self/limits`.
 */
export function maxConnections(limits: string = readLimits()): number {
  const descriptors = descriptorsIn(limits)
  return Math.max(descriptors - descriptorDefaults.reserved, Math.ceil(descriptors / 2))
}

/** @throws Error that names the remedy, if the process may have too few descriptors to serve */
export function requireDescriptors(limits: string = readLimits()): void {
  const descriptors = descriptorsIn(limits)
  const { fewest } = descriptorDefaults
  if (descriptors >= fewest) return
  throw new Error(
    `the limit of ${descriptors} open files is too low: raise it to at least ${fewest}, better 65536, with \`ulimit -n\` or LimitNOFILE of systemd`,
  )
}

/** Returns the process's limit of descriptors, infinite if it has none or the system does not tell. */
function descriptorsIn(limits: string): number {
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  return soft === undefined ? Infinity : Number(soft)
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
