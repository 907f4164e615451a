import { ApiError } from '@setpoint/controller-runtime/api'
import { callerOf } from '@setpoint/controller-runtime/internal'
import type { Logger, ProgramLog } from '../log/index.ts'
import { isFaultOfSomePlugin, pluginAtFault } from '../plugins/index.ts'

/**
 * Handles exceptions and rejections that nothing else does. The fault of a plugin is logged and the process goes on,
 * also if the fault does not say which plugin it comes from. After any other the state of the process is unknown: it
 * logs the fault and exits with code 1.
 *
 * A call to the API that is not awaited rejects with an ApiError whose stack has no frame of the caller. It is a
 * response, not a fault of the server, so the process goes on.
 *
 * @param exiting called before a fault ends the process
 */
export function handleFaults(log: ProgramLog, exiting: () => void): void {
  // Node raises unhandled rejections as exceptions too, as long as no other listener takes them.
  process.on('uncaughtException', (error: unknown, origin) => {
    const plugin = pluginAtFault(error)
    if (plugin !== undefined) {
      log.logger.error({ plugin, err: shown(error), origin }, 'a plugin did not handle an error')
    } else if (origin === 'unhandledRejection' && error instanceof ApiError) {
      log.logger.error(
        { plugin: callerOf(error), err: error, origin },
        'a call to the API was refused, and its caller neither awaited nor handled it',
      )
    } else if (isFaultOfSomePlugin(error)) {
      log.logger.error({ err: shown(error), origin }, 'an unknown plugin did not handle an error')
    } else {
      exiting()
      log.logger.fatal({ err: error, origin }, 'uncaught exception, exiting')
      void log.flush().then(() => process.exit(1))
    }
  })
}

/**
 * Logs the warnings of Node.js, which Node prints as plain text between the lines of the log. Operators cannot act on
 * deprecations, so these are logged at the level debug.
 */
export function logWarnings(log: Logger): void {
  process.removeAllListeners('warning')
  process.on('warning', warning => {
    const level = warning.name === 'DeprecationWarning' ? 'debug' : 'warn'
    log[level]({ err: warning }, 'warning of Node.js')
  })
}

/** Returns the error, or a text if the log cannot read it. */
function shown(error: unknown): unknown {
  try {
    if (error instanceof Error) JSON.stringify([error.message, error.stack])
    return error
  } catch {
    return 'an error that cannot be read'
  }
}
