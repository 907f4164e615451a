// JavaScript, so that a child process can import it on every Node that the tests support.
import process from 'node:process'

/** @type {Set<import('node:child_process').ChildProcess>} */
const children = new Set()

function killAll() {
  for (const child of children) child.kill('SIGKILL')
}

process.once('exit', killAll)
// A signal ends the process without an `exit` event. Sent again, with its listener gone, it has its default effect.
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    killAll()
    process.kill(process.pid, signal)
  })
}

/**
 * Kills `child` when this process ends, so that an interrupted test leaves no programs behind.
 * @param {import('node:child_process').ChildProcess} child
 */
export function killAtExit(child) {
  children.add(child)
  child.once('exit', () => children.delete(child))
}
