import { readdir, readFile } from 'node:fs/promises'

/** Suspends a process, and resolves when it has stopped: its connections stay open, but it does not respond. */
export async function suspend(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  // The signal takes time to reach all threads, and one that still runs may respond.
  while (!(await isStopped(pid))) await new Promise(resolve => setTimeout(resolve, 1))
}

export function resume(pid: number): void {
  process.kill(pid, 'SIGCONT')
}

/** Returns true if every thread is stopped, on Linux. Elsewhere there is no /proc, and the function returns true. */
async function isStopped(pid: number): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const states = await Promise.all(
    threads.map(async id => {
      const stat = await readFile(`/proc/${pid}/task/${id}/stat`, 'utf8').catch(() => '')
      return stat.charAt(stat.lastIndexOf(')') + 2)
    }),
  )
  return states.every(state => state === 'T')
}
