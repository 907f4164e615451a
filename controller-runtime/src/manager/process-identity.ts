import { randomUUID } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/**
 * Who a process is, among all processes of all machines: `<host name>_<UUID>`, and on Linux also
 * `_<boot id>.<pid namespace>.<pid>.<start time>`, by which another process of the same machine can tell whether it has
 * ended. A lease whose holder was killed need not run out then: a server that is restarted goes on at once.
 */
export function identityOfThisProcess(): string {
  const place = placeOf(process.pid)
  return [hostname(), randomUUID(), ...(place === undefined ? [] : [place])].join('_')
}

/**
 * Whether the process of this identity is known to have ended: it ran on this machine since it was started, among the
 * processes that this one can see. False where nothing can be known, which says nothing of the process.
 */
export function hasEnded(identity: string): boolean {
  const [, boot, namespace, pidText = ''] = /_([0-9a-f-]{36})\.(\d+)\.(\d+)\.\d+$/.exec(identity) ?? []
  if (boot === undefined || boot !== bootId() || namespace !== pidNamespace()) return false
  const pid = Number(pidText)
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  try {
    process.kill(pid, 0)
  } catch (error) {
    // Anything else, such as EPERM, is said of a process that is there.
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
  const place = placeOf(pid)
  // There is a process of that number. One that started at another time is another one.
  return place !== undefined && !identity.endsWith(`_${place}`)
}

/** Undefined where the system does not tell, or the process runs no more although its number is still taken. */
function placeOf(pid: number): string | undefined {
  const stat = read(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  const boot = bootId()
  const namespace = pidNamespace()
  if (stat === undefined || boot === undefined || namespace === undefined) return undefined
  // The name of the program stands in brackets and may have anything in it; proc(5) counts the state as field 3.
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
