import { value } from './flag.ts'
import type { NamedText } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { type ReportOutput, statusFlags } from './flags-status.ts'
import { type StoreOptions, storeFlags, storeOfCommand } from './flags-store.ts'
import { readBoolean, UsageError } from './flags-values.ts'

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
  dropSigningKeys: value({
    name: 'drop-signing-keys',
    placeholder: '',
    default: 'false',
    bare: 'true',
    description:
      'with --repair, remove the keys that sign tokens of service accounts if they cannot be read; servers make new ones, and refuse all tokens issued before',
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
  /** True if a repair removes signing keys that cannot be read. */
  readonly dropSigningKeys: boolean
  readonly output: ReportOutput
}

/** @throws UsageError */
export function checkOptions(settings: Settings): CheckOptions {
  const repair = settings.value(checkFlags.repair)
  const dropSigningKeys = settings.value(checkFlags.dropSigningKeys)
  if (dropSigningKeys && !repair) throw new UsageError('--drop-signing-keys needs --repair')
  const output = settings.value(statusFlags.reportOutput)
  return {
    store: storeOfCommand(settings),
    encryption: settings.optional(storeFlags.encryptionProviderConfig),
    repair,
    dropSigningKeys,
    output,
  }
}
