import { type ValueFlag, value } from './flag.ts'
import type { Settings } from './flags-settings.ts'
import { oneOf, readServerUrl } from './flags-values.ts'
import type { ServerConnection } from './server-transport.ts'

/** The flags of `setpoint status`, besides those that it shares with other commands. */
export const statusFlags = Object.freeze({
  statusServers: {
    name: 'server',
    kind: 'repeatable',
    placeholder: 'URL',
    default: 'http://127.0.0.1:8090',
    description: 'URL of a server with its base path; give each server of a control plane',
    meansTheSame: true,
    commands: ['status'],
    read: readServerUrl,
  } satisfies ValueFlag<string>,
  reportOutput: value({
    name: 'output',
    placeholder: 'text|json',
    default: 'text',
    description: 'the form of the report: text for people, or one JSON document',
    commands: ['status', 'check'],
    read: oneOf('text', 'json'),
  }),
})

export type ReportOutput = 'text' | 'json'

/** Whom to ask, and how to report. */
export interface StatusOptions extends Omit<ServerConnection, 'server'> {
  readonly servers: readonly string[]
  readonly reservedDomain: string
  readonly lease: string
  readonly output: ReportOutput
}

/** @param shared what other flags say */
export function statusOptions(
  settings: Settings,
  shared: Pick<StatusOptions, 'serverToken' | 'serverCa' | 'reservedDomain' | 'lease'>,
): StatusOptions {
  const { statusServers, reportOutput } = statusFlags
  const servers = settings.several(statusServers) ?? [statusServers.default]
  return { ...shared, servers, output: settings.value(reportOutput) }
}
