import type { UserInfo } from '@setpoint/controller-runtime'
import { ProgramLog } from '../log/index.ts'
import { makeToken } from '../security/index.ts'
import { startControllers } from './controllers.ts'
import { handleFaults } from './faults.ts'
import { parseCommandLine, type ServeOptions, UsageError } from './flags.ts'
import { startServer } from './server.ts'

/** Exit codes, as shells and supervisors know them. */
const exitCodes = Object.freeze({ failure: 1, usage: 2 })

/**
 * The program. Standard output gets what was asked for: help, the version, or one line when the server serves;
 * everything else is a log line on standard error.
 */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    const commandLine = parseCommandLine(argv, process.env)
    if (commandLine.command === 'serve') await serve(commandLine.options, commandLine.warnings)
    else if (commandLine.command === 'token') printToken(commandLine.user)
    else process.stdout.write(commandLine.text)
  } catch (error) {
    const usage = error instanceof UsageError
    process.stderr.write(`setpoint: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = usage ? exitCodes.usage : exitCodes.failure
  }
}

/** The entry can be appended to the file as it is; the token goes where a redirection of output does not take it. */
function printToken(user: UserInfo): void {
  const { token, entry } = makeToken(user)
  process.stderr.write(`The token of ${user.name}, which is not kept anywhere: ${token}\n`)
  process.stdout.write(entry)
}

async function serve(options: ServeOptions, warnings: readonly string[]): Promise<void> {
  const programLog = openLog(options)
  const log = programLog.logger
  for (const warning of warnings) log.warn({}, warning)
  handleFaults(programLog)
  const signals = new StopSignals()
  const { line, running } = await start(options, programLog)
  process.stdout.write(`${line}\n`)
  await signals.stop
  log.info({}, 'stopping: what is under way may finish; asked once more, it is cut off')
  let forced = false
  signals.onForce(() => {
    forced = true
    log.warn({}, 'asked to stop again: what has not ended is cut off')
    void running.stop({ force: true })
  })
  await running.stop()
  await programLog.flush()
  // What a plugin has left running must not keep the process.
  process.exit(forced ? exitCodes.failure : 0)
}

interface Stoppable {
  stop(options?: { readonly force?: boolean }): Promise<void>
}

function openLog({ logLevel, logFormat }: ServeOptions): ProgramLog {
  const isTerminal = process.stderr.isTTY
  // A reader that has gone shows in the callback of the write.
  process.stderr.on('error', () => {})
  return new ProgramLog({
    level: logLevel,
    format: logFormat === 'auto' ? (isTerminal ? 'text' : 'json') : logFormat,
    // https://no-color.org
    colour: isTerminal && !process.env.NO_COLOR,
    stream: process.stderr,
  })
}

/** Returns what runs, and the line that reports it. */
async function start(
  options: ServeOptions,
  programLog: ProgramLog,
): Promise<{ line: string; running: Stoppable }> {
  const { logger: log } = programLog
  const losses = () => programLog.losses
  if (options.role === 'controllers') {
    const running = await startControllers(options, log, losses)
    return { line: `setpoint controllers running against ${options.server}`, running }
  }
  const running = await startServer(options, log, losses)
  return { line: `setpoint listening on ${running.url}`, running }
}

/** SIGTERM or SIGINT: the first asks to stop, the second forces it, the third ends the process where it stands. */
class StopSignals {
  readonly stop: Promise<void>
  // Where nothing is there yet that could be forced, the second ends the process.
  #force: () => void = () => process.exit(exitCodes.failure)

  constructor() {
    this.stop = new Promise(resolve => {
      let count = 0
      const onSignal = () => {
        count++
        if (count === 1) resolve()
        else if (count === 2) this.#force()
        else process.exit(exitCodes.failure)
      }
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal)
    })
  }

  onForce(force: () => void): void {
    this.#force = force
  }
}
