import { value } from './flag.ts'
import type { Settings } from './flags-settings.ts'
import { type StoreOptions, storeFlags, storeOptions } from './flags-store.ts'
import { readBoolean, readNonEmpty, readServerUrl, UsageError } from './flags-values.ts'
import type { ServerConnection } from './server-transport.ts'

/** The flags of `setpoint backup`, `restore` and `verify` besides those of the store and the server. */
export const backupFlags = Object.freeze({
  backupServer: value({
    name: 'server',
    placeholder: 'URL',
    description:
      'URL of a running server with its base path, which streams the backup; without it, the store is read itself',
    meansTheSame: true,
    commands: ['backup'],
    read: readServerUrl,
  }),
  since: value({
    name: 'since',
    placeholder: 'FILE',
    description: 'take an increment: only the changes since this backup, as long as the history reaches back',
    commands: ['backup'],
    read: readNonEmpty,
  }),
  force: value({
    name: 'force',
    placeholder: '',
    default: 'false',
    bare: 'true',
    description: 'replace a file that exists',
    commands: ['backup', 'restore'],
    differs: {
      restore: {
        description:
          'replace all content of a store that is not empty, or that a restore has left incomplete',
      },
    },
    read: readBoolean,
  }),
  dryRun: value({
    name: 'dry-run',
    placeholder: '',
    default: 'false',
    bare: 'true',
    description: 'check the files and the store, say what would be done, and change nothing',
    commands: ['restore', 'purge'],
    differs: { purge: { description: 'say what would be removed, and remove nothing' } },
    read: readBoolean,
  }),
})

/** Where a backup is taken from. */
export type BackupOrigin =
  | { readonly kind: 'server'; readonly connection: ServerConnection }
  | { readonly kind: 'store'; readonly store: StoreOptions }

export interface BackupCommandOptions {
  readonly origin: BackupOrigin
  /** The file to write; `-` for standard output. */
  readonly file: string
  readonly since: string | undefined
  readonly force: boolean
}

export interface RestoreCommandOptions {
  readonly store: StoreOptions
  /** A full backup, and the increments after it, in order. */
  readonly files: readonly string[]
  readonly force: boolean
  readonly dryRun: boolean
}

/** @throws UsageError */
export function backupOptions(
  settings: Settings,
  file: string,
  connection: Omit<ServerConnection, 'server'>,
): BackupCommandOptions {
  return {
    origin: originOf(settings, connection),
    file,
    since: settings.optional(backupFlags.since),
    force: settings.value(backupFlags.force),
  }
}

/** @throws UsageError */
export function restoreOptions(settings: Settings, files: readonly string[]): RestoreCommandOptions {
  if (files.includes('-')) throw new UsageError('restore reads its files twice, so it needs files, not -')
  return {
    store: storeOptions(settings),
    files,
    force: settings.value(backupFlags.force),
    dryRun: settings.value(backupFlags.dryRun),
  }
}

/** A server comes first: the environment of a server's container names its store, too. */
function originOf(settings: Settings, connection: Omit<ServerConnection, 'server'>): BackupOrigin {
  const server = settings.optional(backupFlags.backupServer)
  const ofStore = Object.values(storeFlags).find(flag => settings.isOnCommandLine(flag))
  if (server === undefined) return { kind: 'store', store: storeOptions(settings) }
  if (ofStore === undefined) return { kind: 'server', connection: { server, ...connection } }
  const origin = settings.origin(backupFlags.backupServer)
  if (origin === '--server')
    throw new UsageError(`--server and --${ofStore.name} exclude each other: give the server or its store`)
  return { kind: 'store', store: storeOptions(settings) }
}
