import { checkSubdomain, isReservedGroup } from '@setpoint/controller-runtime/api'
import { value } from './flag.ts'
import { backupFlags } from './flags-backup.ts'
import type { NamedText } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { type StoreOptions, storeFlags, storeOfCommand } from './flags-store.ts'
import { quote, readBoolean, UsageError } from './flags-values.ts'

/** The flags of `setpoint purge`, besides those that it shares with other commands. */
export const purgeFlags = Object.freeze({
  yes: value({
    name: 'yes',
    placeholder: '',
    default: 'false',
    bare: 'true',
    description: 'remove it without asking, also objects with finalizers',
    commands: ['purge'],
    read: readBoolean,
  }),
})

/** What to purge, and where. */
export interface PurgeOptions {
  readonly store: StoreOptions
  /** How its values are encrypted. */
  readonly encryption: NamedText | undefined
  /** Not a built-in group. */
  readonly group: string
  readonly reservedDomain: string
  readonly dryRun: boolean
  /** True if the question is answered already. */
  readonly yes: boolean
}

/** @throws UsageError for a group that is malformed or built in */
export function purgeOptions(settings: Settings, group: string, reservedDomain: string): PurgeOptions {
  const problem = checkSubdomain(group)
  if (problem !== undefined)
    throw new UsageError(`${quote(group)} is not the API group of a plugin: a group ${problem}`)
  if (isReservedGroup(group, reservedDomain))
    throw new UsageError(`${group} is built in: only the groups of plugins can be purged`)
  const dryRun = settings.value(backupFlags.dryRun)
  const yes = settings.value(purgeFlags.yes)
  if (dryRun && yes) throw new UsageError('--dry-run and --yes exclude each other')
  return {
    store: storeOfCommand(settings),
    encryption: settings.optional(storeFlags.encryptionProviderConfig),
    group,
    reservedDomain,
    dryRun,
    yes,
  }
}
