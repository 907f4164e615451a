/**
 * The program's log: pino's lines on standard error, as JSON or as text for people.
 *
 * Logging never blocks the server. The buffer for a slow reader is bounded; lines that do not fit are dropped and
 * counted. Repeated warnings and errors are limited, so that a client cannot flood the log.
 */
export type { Logger } from '@setpoint/controller-runtime'
export * from './log-output.ts'
export * from './program-log.ts'
export * from './repeat-limit.ts'
export * from './secrets.ts'
export * from './text-format.ts'
