import { randomUUID } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/**
 * Returns a unique identity of this process: `<host name>_<UUID>`, and on Linux also `_<boot id>.<pid
 * namespace>.<pid>.<start time>`. With it another process on the same machine can tell whether this one has ended, and
 * take over its lease without waiting for it to expire.
 */
export function identityOfThisProcess(): string {
  const place = placeOf(process.pid)
  return [hostname(), randomUUID(), ...(place === undefined ? [] : [place])].join('_')
}

/**
 * Returns true if the process of this identity is known to have ended: it ran on this machine since the last boot, in
 * our pid namespace. Returns false if unknown.
 */
export function hasEnded(identity: string): boolean {
  const [, boot, namespace, pidText = ''] = /_([0-9a-f-]{36})\.(\d+)\.(\d+)\.\d+$/.exec(identity) ?? []
  if (boot === undefined || boot !== bootId() || namespace !== pidNamespace()) return false
  const pid = Number(pidText)
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  try {
    process.kill(pid, 0)
  } catch (error) {
    // Other errors, such as EPERM, mean that the process exists.
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
  const place = placeOf(pid)
  // The pid may have been reused; then the start time differs.
  return place !== undefined && !identity.endsWith(`_${place}`)
}

/** Returns undefined if the system does not say. A zombie has the start time 0. */
function placeOf(pid: number): string | undefined {
  const stat = read(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  const boot = bootId()
  const namespace = pidNamespace()
  if (stat === undefined || boot === undefined || namespace === undefined) return undefined
  // The program name is in parentheses and may contain anything; proc(5) counts the state as field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = '', startTime = ''] = [fields[0], fields[19]]
  return [boot, namespace, pid, state === 'Z' || state === 'X' ? 0 : startTime].join('.')
}

function bootId(): string | undefined {
  return read(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
}

function pidNamespace(): string | undefined {
  return read(() => /\[(\d+)\]/.exec(readlinkSync('/proc/self/ns/pid'))?.[1])
}

function read(ask: () => string | undefined): string | undefined {
  try {
    return ask()
  } catch {
    return undefined
  }
}
