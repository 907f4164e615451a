import { pino } from 'pino'
import { startControllers } from './controllers.ts'
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
    else process.stdout.write(commandLine.text)
  } catch (error) {
    const usage = error instanceof UsageError
    process.stderr.write(`setpoint: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = usage ? exitCodes.usage : exitCodes.failure
  }
}

async function serve(options: ServeOptions, warnings: readonly string[]): Promise<void> {
  const log = pino({ level: options.logLevel, base: null }, pino.destination({ dest: 2, sync: true }))
  for (const warning of warnings) log.warn({}, warning)
  process.on('unhandledRejection', error =>
    log.error({ err: error }, 'a rejection that nobody handled, most likely of a plugin'),
  )
  process.on('uncaughtException', error =>
    log.error({ err: error }, 'an exception that nobody caught, most likely of a plugin'),
  )
  const stopRequested = new Promise<void>(resolve => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        // A second one means: now.
        process.once(signal, () => process.exit(exitCodes.failure))
        resolve()
      })
    }
  })
  if (options.role === 'controllers') {
    const controllers = await startControllers(options, log)
    process.stdout.write(`setpoint controllers running against ${options.server}\n`)
    await stopRequested
    await controllers.stop()
  } else {
    const server = await startServer(options, log)
    process.stdout.write(`setpoint listening on ${server.url}\n`)
    await stopRequested
    await server.stop()
  }
  // What a plugin has left running must not keep the process.
  process.exit(0)
}
