import { value } from './flag.ts'
import type { NamedText } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { type ReportOutput, statusFlags } from './flags-status.ts'
import { type StoreOptions, storeFlags, storeOfCommand } from './flags-store.ts'
import { readBoolean } from './flags-values.ts'

/** The flags of `setpoint check`, besides those that it shares with other commands. */
export const checkFlags = Object.freeze({
  repair: value({
    name: 'repair',
    placeholder: '',
    default: 'false',
    bare: 'true',
    description: 'repair what can be repaired without losing anything, and say what was done',
    commands: ['check'],
    read: readBoolean,
  }),
})

/** Which store to check, and how. */
export interface CheckOptions {
  readonly store: StoreOptions
  /** How its values are encrypted. */
  readonly encryption: NamedText | undefined
  readonly repair: boolean
  readonly output: ReportOutput
}

export function checkOptions(settings: Settings): CheckOptions {
  const output = settings.value(statusFlags.reportOutput)
  return {
    store: storeOfCommand(settings),
    encryption: settings.optional(storeFlags.encryptionProviderConfig),
    repair: settings.value(checkFlags.repair),
    output,
  }
}
