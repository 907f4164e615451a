import type { Clock } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import { type Logger as Pino, pino } from 'pino'
import { LogOutput, type LogStream } from './log-output.ts'
import { RepeatLimit } from './repeat-limit.ts'
import { secrets } from './secrets.ts'
import { formatText } from './text-format.ts'

interface ProgramLogOptions {
  readonly level: string
  readonly format: 'json' | 'text'
  /** Of text. */
  readonly colour: boolean
  readonly stream: LogStream
  readonly clock?: Clock
  /**
   * Returns what is logged of an error for the author of the code. Default: its whole stack, and no lines of source.
   */
  readonly explain?: (error: Error) => ErrorExplanation | undefined
}

/** Where an error was thrown. */
export interface ErrorExplanation {
  readonly stack: string
  /** The lines of source. */
  readonly frame: string
}

/** Lines that were logged and not written, since the start. */
export interface LogLosses {
  /** No one read the lines before it in time. */
  readonly bufferFull: number
  /** The same message was logged too often. */
  readonly repeated: number
}

/** The log of a process. */
export class ProgramLog {
  /** Takes lines at every level, also `fatal`. */
  readonly logger: Pino
  readonly #output: LogOutput
  readonly #repeats: RepeatLimit

  constructor({ level, format, colour, stream, clock, explain }: ProgramLogOptions) {
    const recovered = (dropped: number) =>
      this.logger.warn({ dropped }, 'log lines were dropped: standard error was not read fast enough')
    const output = new LogOutput({ stream, recovered, clock })
    const repeats = new RepeatLimit({
      summarize: (source, message, suppressed) =>
        this.logger.warn({ ...source, message, suppressed }, 'repeated log lines were suppressed'),
      clock,
    })
    this.#output = output
    this.#repeats = repeats
    this.logger = pino(
      {
        level,
        base: null,
        formatters: { level: label => ({ level: label }) },
        serializers: { err: error => serializeError(error, explain) },
        hooks: {
          logMethod(args, method, severity) {
            const message = args[1] ?? args[0]
            const isLimited = severity === levelOf.warn || severity === levelOf.error
            if (isLimited && typeof message === 'string' && !repeats.admits(sourceOf(this), message)) return
            method.apply(this, args)
          },
        },
      },
      {
        write: line => {
          const safe = secrets.redactLine(line)
          output.write(format === 'text' ? formatText(safe, { colour }) : safe)
        },
      },
    )
  }

  get losses(): LogLosses {
    return { bufferFull: this.#output.dropped, repeated: this.#repeats.suppressed }
  }

  /** Resolves when every line is written; returns soon also when no one reads them. Call it before an exit. */
  flush(): Promise<void> {
    return this.#output.flush()
  }
}

const levelOf = pino.levels.values

/**
 * The fields of child loggers that name their part of the program. Others, such as the object of a run, vary too much.
 */
const sourceFields = ['plugin', 'controller', 'runnable', 'watch', 'informer']

function sourceOf(logger: Pino): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(logger.bindings()).filter(([field]) => sourceFields.includes(field)),
  )
}

/**
 * Returns an error with its stack and its causes, unless it is an outage. The message of an error of ours includes its
 * cause's; pino's default serializer would append that again. The type is the error's own name, because a bundler may
 * rename its class.
 */
function serializeError(error: Error, explain: ProgramLogOptions['explain']): object {
  const isOutage = error instanceof Error && 'isOutage' in error && error.isOutage === true
  if (isOutage) return { type: error.name, message: error.message }
  const serialized = pino.stdSerializers.errWithCause(error)
  nameTypes(serialized)
  return Object.assign(serialized, explain?.(error))
}

/** Sets the types of a serialized error and its causes to the errors' own names. */
function nameTypes(serialized: unknown): void {
  if (!isRecord(serialized)) return
  const { raw, cause } = serialized
  // Anything can be thrown, and have an invalid name.
  if (raw instanceof Error && typeof raw.name === 'string') Object.assign(serialized, { type: raw.name })
  nameTypes(cause)
}
