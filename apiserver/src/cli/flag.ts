import type { ReadFile } from './flags-files.ts'

/**
 * How many values a flag has:
 *
 *     value       one; the last one given counts
 *     list        several in one text, separated by commas; also a YAML list in the configuration file
 *     repeatable  several: the flag is repeated. Separated by commas in the environment, a YAML list in the
 *                 configuration file
 */
type FlagKind = 'value' | 'list' | 'repeatable'

export type CommandName =
  | 'serve'
  | 'dev'
  | 'token'
  | 'service-account-token'
  | 'kubeconfig'
  | 'status'
  | 'check'
  | 'purge'
  | 'backup'
  | 'restore'
  | 'verify'
  | 'reencrypt'
  | 'definitions'

/** The commands that work on the store itself. They read the configuration file of the server, as `status` does. */
export const storeCommands = [
  'check',
  'purge',
  'backup',
  'restore',
  'reencrypt',
] as const satisfies readonly CommandName[]

/** One row of the table of flags. The command line, the environment, the configuration file and the help all use it. */
export interface Flag {
  /** Without dashes; also the key in the configuration file. */
  readonly name: string
  readonly kind: FlagKind
  /** Stands for the value in the help. Empty for a switch, which takes no value on the command line. */
  readonly placeholder: string
  /** The default as text. */
  readonly default?: string
  /** Its value when it is given without one. Without this it needs a value. */
  readonly bare?: string
  readonly description: string
  /** The commands that take the flag. */
  readonly commands: readonly CommandName[]
  /** What the help of a command says instead. */
  readonly differs?: Partial<Readonly<Record<CommandName, Partial<Pick<Flag, 'default' | 'description'>>>>>
  /** True if its value is a secret, which is shown nowhere. */
  readonly isSecret?: true
  /** True if it is the setting of `serve` with the same name, although that is another row. */
  readonly meansTheSame?: true
}

/** A flag whose values are of type T. `read` gets one text and throws UsageError for a bad one. */
export interface ValueFlag<T> extends Flag {
  read(text: string, readFile: ReadFile): T
}

/** A flag that always has a value. */
export interface DefaultedFlag<T> extends ValueFlag<T> {
  readonly default: string
}

/** The texts of each given flag, in the order of the command line. */
export type GivenFlags = ReadonlyMap<Flag, readonly string[]>

/** A flag with one value as it is declared. Default: only `serve` takes it. */
type Declared<F extends Flag> = Omit<F, 'kind' | 'commands'> & Partial<Pick<Flag, 'commands'>>

/** Returns a flag with one value. */
export function value<T>(flag: Declared<DefaultedFlag<T>>): DefaultedFlag<T>
export function value<T>(flag: Declared<ValueFlag<T>>): ValueFlag<T>
export function value<T>(flag: Declared<ValueFlag<T>>): ValueFlag<T> {
  return { commands: ['serve'], ...flag, kind: 'value' }
}

/**
 * Returns true if `serve` has the setting, too, so that the environment and the configuration file of a server have it.
 */
export function isSettingOfServe({ commands, meansTheSame }: Flag): boolean {
  return commands.includes('serve') || meansTheSame === true
}

/**
 * Returns the name of a flag in the environment: `--data-dir` is `SETPOINT_DATA_DIR`. The name of one that `serve` does
 * not take has the command in it, because commands often run in the environment of a server: `--token-file` of
 * `kubeconfig` is `SETPOINT_KUBECONFIG_TOKEN_FILE`.
 */
export function environmentName(flag: Flag, command: CommandName): string {
  const parts = isSettingOfServe(flag) ? ['setpoint', flag.name] : ['setpoint', command, flag.name]
  return parts.join('_').toUpperCase().replaceAll('-', '_')
}
