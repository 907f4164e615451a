import { value } from './flag.ts'
import { type ReadFile, readTextFile } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { type StoreOptions, storeFlags, storeOfCommand } from './flags-store.ts'
import { quote, readBoolean, readNonEmpty, readServerUrl, UsageError } from './flags-values.ts'
import type { ServerConnection } from './server-transport.ts'

/** Bytes of a key, see `sealDefaults`. The command line is read without loading the backups. */
const backupKeyBytes = 32

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
  encryptKeyFile: value({
    name: 'encrypt-key-file',
    placeholder: 'FILE',
    description: `file with the key that encrypts backups: ${backupKeyBytes} bytes in base64`,
    commands: ['backup', 'restore', 'verify'],
    read: readBackupKey,
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

function readBackupKey(path: string, readFile: ReadFile): Buffer {
  const text = readTextFile(path, readFile).text.trim()
  const key = Buffer.from(text, 'base64')
  if (key.length !== backupKeyBytes || key.toString('base64') !== text)
    throw new UsageError(
      `${quote(path)} is not a key: ${backupKeyBytes} bytes in base64 are accepted, as \`openssl rand -base64 ${backupKeyBytes}\` makes them`,
    )
  return key
}

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
  /** Undefined for a backup that is not encrypted. */
  readonly key: Buffer | undefined
}

export interface RestoreCommandOptions {
  readonly store: StoreOptions
  /** A full backup, and the increments after it, in order. */
  readonly files: readonly string[]
  readonly force: boolean
  readonly dryRun: boolean
  readonly key: Buffer | undefined
}

export interface VerifyCommandOptions {
  readonly files: readonly string[]
  readonly key: Buffer | undefined
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
    key: settings.optional(backupFlags.encryptKeyFile),
  }
}

/** @throws UsageError */
export function restoreOptions(settings: Settings, files: readonly string[]): RestoreCommandOptions {
  if (files.includes('-')) throw new UsageError('restore reads its files twice, so it needs files, not -')
  return {
    store: storeOfCommand(settings),
    files,
    force: settings.value(backupFlags.force),
    dryRun: settings.value(backupFlags.dryRun),
    key: settings.optional(backupFlags.encryptKeyFile),
  }
}

export function verifyOptions(settings: Settings, files: readonly string[]): VerifyCommandOptions {
  return { files, key: settings.optional(backupFlags.encryptKeyFile) }
}

/** A server comes first: the environment of a server's container names its store, too. */
function originOf(settings: Settings, connection: Omit<ServerConnection, 'server'>): BackupOrigin {
  const server = settings.optional(backupFlags.backupServer)
  const ofStore = Object.values(storeFlags).find(flag => settings.isOnCommandLine(flag))
  if (server === undefined) return { kind: 'store', store: storeOfCommand(settings) }
  if (ofStore === undefined) return { kind: 'server', connection: { server, ...connection } }
  const origin = settings.origin(backupFlags.backupServer)
  if (origin === '--server')
    throw new UsageError(`--server and --${ofStore.name} exclude each other: give the server or its store`)
  return { kind: 'store', store: storeOfCommand(settings) }
}
