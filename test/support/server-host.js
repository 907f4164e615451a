// Runs servers of the compiled program in this process, as its parent asks. JavaScript, so that every supported Node
// runs it.
//
// A start in a new process takes a second of processor time, most of it for code that V8 has not seen yet, and 50 ms
// here. What `serve` adds, such as signals, exit codes and the handling of faults, is for tests with a process for each
// server.
import process from 'node:process'
import { parseCommandLine } from '../../apiserver/dist/cli/flags.js'
import { startServer } from '../../apiserver/dist/cli/server.js'
import { ProgramLog } from '../../apiserver/dist/log/index.js'

/** What stops each server, by the number that the parent gave it. @type {Map<number, AbortController>} */
const servers = new Map()

process.on('message', ({ id, start }) => {
  if (start === undefined) servers.get(id)?.abort()
  else void serve(id, start)
})
process.once('disconnect', () => process.exit())

/**
 * @param {number} id
 * @param {{ args: string[], env: Record<string, string> }} start
 */
async function serve(id, { args, env }) {
  /** @param {object} message */
  const tell = message => void process.send?.({ id, ...message })
  const stopping = new AbortController()
  servers.set(id, stopping)
  try {
    const command = parseCommandLine(args, env)
    if (command.command !== 'serve') throw new Error('only serve has a server')
    const { options, settings, warnings } = command
    const log = new ProgramLog({
      level: options.logLevel,
      format: options.logFormat === 'text' ? 'text' : 'json',
      colour: false,
      stream: {
        write(line, written) {
          tell({ stderr: line.toString() })
          written()
        },
      },
    })
    for (const warning of warnings) log.logger.warn({}, warning)
    const server = await startServer({ options, settings }, log.logger, () => log.losses, stopping.signal)
    tell({ stdout: `setpoint listening on ${server.url}\n` })
    if (!stopping.signal.aborted)
      await new Promise(resolve => stopping.signal.addEventListener('abort', resolve, { once: true }))
    await server.stop()
    await log.flush()
    tell({ exit: 0 })
  } catch (error) {
    tell({ stderr: `setpoint: ${error.message}\n`, exit: 1 })
  } finally {
    servers.delete(id)
  }
}
