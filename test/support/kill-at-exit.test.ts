import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'

const helper = new URL('kill-at-exit.js', import.meta.url).href

/** Starts a program that shares its stdout, and prints the program's process id. */
const script = `
  import { spawn } from 'node:child_process'
  import { killAtExit } from ${JSON.stringify(helper)}
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
    stdio: ['ignore', 'inherit', 'ignore'],
  })
  killAtExit(child)
  console.log(child.pid)
`

it.each(['SIGHUP', 'SIGINT', 'SIGTERM'] as const)(
  '%s ends a test process and the programs that it started',
  async signal => {
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const pid = Number(String(await once(parent.stdout, 'data')))
    let closed = false
    // Both processes hold stdout, so it closes when both have ended.
    parent.once('close', () => {
      closed = true
    })
    const exited = once(parent, 'exit')
    parent.kill(signal)
    try {
      expect(await exited).toEqual([null, signal])
      await expect.poll(() => closed).toBe(true)
    } finally {
      if (!closed) process.kill(pid, 'SIGKILL')
    }
  },
)
