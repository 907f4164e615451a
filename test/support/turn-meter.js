// @ts-check
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'

/**
 * Measures the turns of the event loop of a program that preloads it (`node --import`): a socket at the path in
 * TURN_METER takes the lines `begin` and `end`. The response to `end` is the longest turn since `begin`: milliseconds
 * of processor time of the main thread. Other processes and the threads of V8 do not count, so a busy machine makes no
 * turn longer.
 */

/** The first number is the time on a processor in nanoseconds. */
const processorMs = () => Number.parseInt(readFileSync('/proc/thread-self/schedstat', 'latin1'), 10) / 1e6

let isMeasuring = false
let begunAt = 0
let longestMs = 0

/** Runs at the end of each turn. Without a reference it does not begin one. */
function endTurn() {
  if (isMeasuring) {
    const now = processorMs()
    longestMs = Math.max(longestMs, now - begunAt)
    begunAt = now
  }
  setImmediate(endTurn).unref()
}
endTurn()

const path = process.env.TURN_METER
// The program may start others, which inherit its environment.
delete process.env.TURN_METER
delete process.env.NODE_OPTIONS
if (path !== undefined) {
  const server = createServer(socket => {
    socket.unref()
    socket.on('data', line => {
      if (String(line) === 'begin\n') {
        longestMs = 0
        begunAt = processorMs()
        isMeasuring = true
        socket.write('\n')
      } else {
        // The turn that begins now includes what is left to do.
        setImmediate(() =>
          setImmediate(() => {
            isMeasuring = false
            socket.write(`${longestMs}\n`)
          }),
        )
      }
    })
    socket.on('error', () => {})
  })
  server.listen(path)
  server.unref()
}
