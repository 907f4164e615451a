import { readdir, stat, unlink } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'

/** When a file is rotated, and which backups are kept. */
export interface RotationLimits {
  /** Bytes of a file. */
  readonly bytes: number
  /** Files besides the present one; 0 for no limit. */
  readonly backups: number
  /** Milliseconds that backups are kept; 0 for no limit. */
  readonly ageMs: number
}

/**
 * Returns a free path for a file that is rotated now. `audit.log` becomes `audit-2030-01-02T03-04-05.678.log`, as
 * kube-apiserver names it.
 */
export async function backupPath(path: string, now: number): Promise<string> {
  for (let time = now; ; time++) {
    const stamp = new Date(time).toISOString().slice(0, -1).replaceAll(':', '-')
    const { prefix, suffix } = partsOf(path)
    const backup = join(dirname(path), `${prefix}${stamp}${suffix}`)
    if ((await stat(backup).catch(() => undefined)) === undefined) return backup
  }
}

/** Removes the backups past the limits, the oldest first. @throws the errors of the file system */
export async function removeOldBackups(path: string, limits: RotationLimits, now: number): Promise<void> {
  const { prefix, suffix } = partsOf(path)
  const backups: { name: string; time: number }[] = []
  for (const name of await readdir(dirname(path))) {
    if (!name.startsWith(prefix) || !name.endsWith(suffix)) continue
    const time = timeOf(name.slice(prefix.length, name.length - suffix.length))
    if (time !== undefined) backups.push({ name, time })
  }
  backups.sort((one, other) => other.time - one.time)
  for (const [at, { name, time }] of backups.entries()) {
    const isTooMany = limits.backups > 0 && at >= limits.backups
    const isTooOld = limits.ageMs > 0 && now - time > limits.ageMs
    if (isTooMany || isTooOld) await unlink(join(dirname(path), name))
  }
}

function partsOf(path: string): { prefix: string; suffix: string } {
  const suffix = extname(path)
  return { prefix: `${basename(path, suffix)}-`, suffix }
}

/** Returns the time in the name of a backup, or undefined if it is the name of another file. */
function timeOf(stamp: string): number | undefined {
  const match = /^(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d\.\d{3})$/.exec(stamp)
  const time = match === null ? Number.NaN : Date.parse(`${match[1]}:${match[2]}:${match[3]}Z`)
  return Number.isNaN(time) ? undefined : time
}
