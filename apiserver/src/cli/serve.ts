import { once } from 'node:events'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { requireDescriptors } from '../http/index.ts'
import { type ErrorExplanation, ProgramLog } from '../log/index.ts'
import { checkSource, PluginLoadError } from '../plugins/index.ts'
import { programCommit, programVersion } from '../program-version.ts'
import { startControllers } from './controllers.ts'
import { exitCodes } from './exit-codes.ts'
import { handleFaults, logWarnings } from './faults.ts'
import type { ServeCommand } from './flags.ts'
import { UsageError } from './flags-values.ts'
import type { LogOptions, ServeOptions } from './options.ts'
import { startServer } from './server.ts'
import { settingsInShort } from './settings-in-short.ts'
import { formatStart, linesOfServer, type StartLines } from './start-lines.ts'

/** Serves until a signal asks to stop. @throws the errors of the start */
export async function serve({ options, configFile, settings, warnings }: ServeCommand): Promise<void> {
  await checkPlugins(options)
  const about = { options, settings: settingsInShort(options, configFile), warnings }
  await runUntilStopped(about, (programLog, stopAsked) => start({ options, settings }, programLog, stopAsked))
}

/** A command that runs until it is stopped. */
interface LastingCommand {
  readonly options: LogOptions
  /** For the first line of the log, without secrets. */
  readonly settings: object
  readonly warnings: readonly string[]
  /** Returns what is logged of an error for the author of the code. */
  readonly explain?: (error: Error) => ErrorExplanation | undefined
}

/**
 * Runs what `start` returns until a signal asks to stop, then ends the process. The log begins with the versions and
 * the settings, and ends with the reason of the exit.
 * @throws the errors of `start`
 */
export async function runUntilStopped(
  { options, settings, warnings, explain }: LastingCommand,
  start: (programLog: ProgramLog, stopAsked: AbortSignal) => Promise<Started>,
): Promise<void> {
  requireDescriptors()
  const programLog = openLog(options, explain)
  const log = programLog.logger
  // Empty, it says nothing.
  const commit = programCommit() || undefined
  log.info({ version: programVersion(), commit, node: process.version, ...settings }, 'starting')
  for (const warning of warnings) log.warn({}, warning)
  let reason = 'process.exit() was called'
  // What `main` prints as text, for those who read only JSON.
  let problem: string | undefined
  process.once('exit', code => log[code === 0 ? 'info' : 'error']({ reason, problem, code }, 'exiting'))
  handleFaults(programLog, () => {
    reason = 'uncaught exception'
  })
  logWarnings(log)
  const signals = new StopSignals(signal => {
    reason = signal
  })
  const { lines, running } = await start(programLog, signals.stop).catch(error => {
    reason = 'failed to start'
    problem = errorMessage(error)
    throw error
  })
  // Without a reader of the line, the server still serves.
  process.stdout.on('error', () => {})
  const isTerminal = process.stdout.isTTY
  process.stdout.write(formatStart(lines, { isTerminal, colour: isTerminal && hasColours() }))
  if (!signals.stop.aborted) await once(signals.stop, 'abort')
  log.info({}, 'stopping; a second signal forces it')
  let forced = false
  signals.onForce(() => {
    forced = true
    log.warn({}, 'forced to stop')
    void running.stop({ force: true })
  })
  await running.stop()
  await programLog.flush()
  // Timers and sockets of plugins must not keep the process alive.
  process.exit(forced ? exitCodes.failure : 0)
}

/** @throws UsageError for a source that cannot be read as the package of a plugin */
async function checkPlugins({ plugins = [] }: ServeOptions): Promise<void> {
  for (const source of plugins) {
    await checkSource(source).catch((error: Error) => {
      const problem = error instanceof PluginLoadError ? error.problem : error.message
      throw new UsageError(`--plugin: ${JSON.stringify(source.path)} holds no plugin: ${problem}`)
    })
  }
}

/** The running part, and the lines that report it. */
export interface Started {
  readonly lines: StartLines
  readonly running: Stoppable
}

interface Stoppable {
  stop(options?: { readonly force?: boolean }): Promise<void>
}

function openLog({ logLevel, logFormat }: LogOptions, explain: LastingCommand['explain']): ProgramLog {
  const isTerminal = process.stderr.isTTY
  // A reader that has gone shows in the callback of the write.
  process.stderr.on('error', () => {})
  return new ProgramLog({
    level: logLevel,
    format: logFormat === 'auto' ? (isTerminal ? 'text' : 'json') : logFormat,
    colour: isTerminal && hasColours(),
    stream: process.stderr,
    explain,
  })
}

/** False if the user wants no colours (https://no-color.org). */
function hasColours(): boolean {
  return !process.env.NO_COLOR
}

/** Starts the role. Does not wait for plugins once `stopAsked` is aborted. */
async function start(
  { options, settings }: Pick<ServeCommand, 'options' | 'settings'>,
  programLog: ProgramLog,
  stopAsked: AbortSignal,
): Promise<Started> {
  const { logger: log } = programLog
  const losses = () => programLog.losses
  if (options.role === 'controllers') {
    const running = await startControllers(options, log, losses)
    return { lines: { line: `setpoint controllers running against ${options.server}` }, running }
  }
  const running = await startServer({ options, settings }, log, losses, stopAsked)
  const { url, consoleUrl } = running
  if (consoleUrl !== undefined) log.info({ url: consoleUrl }, 'serving the console')
  return { lines: linesOfServer(url, options, consoleUrl), running }
}

/**
 * SIGTERM or SIGINT: the first asks to stop, the second forces it, the third ends the process at once. SIGHUP only asks
 * to stop, because a closing terminal may send it several times.
 */
class StopSignals {
  readonly #stop = new AbortController()
  // Until something runs, the second signal ends the process.
  #force: () => void = () => process.exit(exitCodes.failure)

  /** @param received called with each signal, before it has an effect */
  constructor(received: (signal: NodeJS.Signals) => void) {
    let count = 0
    const onSignal = (signal: NodeJS.Signals) => {
      received(signal)
      count++
      if (count === 1) this.#stop.abort()
      else if (count === 2) this.#force()
      else process.exit(exitCodes.failure)
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal)
    process.on('SIGHUP', signal => {
      received(signal)
      this.#stop.abort()
    })
  }

  /** Aborts with the first signal. */
  get stop(): AbortSignal {
    return this.#stop.signal
  }

  onForce(force: () => void): void {
    this.#force = force
  }
}
