import { type ConfigFile, readConfigFile, splitList } from './config.ts'
import {
  type CommandName,
  type DefaultedFlag,
  environmentName,
  type Flag,
  type GivenFlags,
  isSettingOfServe,
  storeCommands,
  type ValueFlag,
  value,
} from './flag.ts'
import { type ReadFile, readTextFile } from './flags-files.ts'
import { UsageError } from './flags-values.ts'

/** The texts given for a flag, with their source. */
interface Given {
  readonly texts: readonly string[]
  /** For messages: `--listen`, `SETPOINT_LISTEN` or `setpoint.yaml:3: listen`. */
  readonly origin: string
}

/** What a setting is, as text, and where it comes from. */
export interface SettingInForce {
  /** Several for a flag with several values. */
  readonly value: string | readonly string[]
  /** `--listen`, `SETPOINT_LISTEN`, `setpoint.yaml:3: listen` or `default`. */
  readonly from: string
}

/** By the names of their flags. Settings without a value are left out, and so are those of plugins. */
export type SettingsInForce = Readonly<Record<string, SettingInForce>>

const ofServer = {
  description:
    'the configuration file of the server. Its settings count for the flags here that `setpoint serve` has, too',
}

/** The flag that names the configuration file. */
export const configFlag = value({
  name: 'config',
  placeholder: 'FILE',
  description: 'YAML file with settings; its keys are the names of these flags without the leading dashes',
  commands: ['serve', 'dev', 'status', ...storeCommands],
  differs: {
    status: ofServer,
    check: ofServer,
    purge: ofServer,
    backup: ofServer,
    restore: ofServer,
    reencrypt: ofServer,
  },
  read: readTextFile,
})

/** The settings of a command: flags, environment variables and the configuration file, in this order. */
export class Settings {
  /** Path of the configuration file, as it was given. */
  readonly configFile: string | undefined
  /** `plugins` of the configuration file. */
  readonly plugins: ConfigFile['plugins']
  /** `oidc` of the configuration file. */
  readonly issuers: ConfigFile['issuers']
  readonly #taken: readonly Flag[]
  readonly #sources: readonly ((flag: Flag) => Given | undefined)[]
  readonly #readFile: ReadFile

  /**
   * @param taken the flags of the command
   * @param inFile the flags that a configuration file may have
   * @param ofServe the flags that the file of a server may have
   */
  constructor(
    command: CommandName,
    { taken, inFile, ofServe }: Record<'taken' | 'inFile' | 'ofServe', readonly Flag[]>,
    onCommandLine: GivenFlags,
    env: Readonly<Record<string, string | undefined>>,
    readFile: ReadFile,
  ) {
    this.#readFile = readFile
    this.#taken = taken
    const commandLine = (flag: Flag): Given | undefined => {
      const texts = onCommandLine.get(flag)
      if (texts === undefined) return undefined
      return { texts: flag.kind === 'list' ? splitList(texts.at(-1) ?? '') : texts, origin: `--${flag.name}` }
    }
    const environment = (flag: Flag): Given | undefined => {
      const origin = environmentName(flag, command)
      const text = env[origin]
      // Manifests and scripts leave a variable out by setting it to nothing.
      if (text === undefined || text === '') return undefined
      return { texts: flag.kind === 'value' ? [text] : splitList(text), origin }
    }
    this.#sources = [commandLine, environment]
    const configFile = taken.includes(configFlag) ? this.optional(configFlag) : undefined
    const accepted = inFile.filter(flag => flag !== configFlag)
    const config =
      configFile &&
      readConfigFile(
        configFile,
        accepted,
        ofServe.filter(flag => flag !== configFlag),
      )
    this.configFile = configFile?.path
    this.plugins = config?.plugins ?? {}
    this.issuers = config?.issuers
    if (config === undefined) return
    const file = (flag: Flag) => (isSettingOfServe(flag) ? config.flags.get(flag.name) : undefined)
    this.#sources = [...this.#sources, file]
  }

  /** Returns the source of a flag for messages, or undefined if it was not given. */
  origin(flag: Flag): string | undefined {
    return this.#find(flag)?.origin
  }

  /** Returns true if a flag was given on the command line. */
  isOnCommandLine(flag: Flag): boolean {
    return this.origin(flag) === `--${flag.name}`
  }

  /** Returns every setting of the command that has a value. Files are named, not quoted, and secrets are replaced. */
  inForce(): SettingsInForce {
    const known = this.#taken.flatMap(flag => {
      const { texts, origin } = this.#find(flag) ?? { texts: undefined, origin: 'default' }
      const value = flag.kind === 'value' ? (texts?.at(-1) ?? flag.default) : texts
      return value === undefined
        ? []
        : [[flag.name, { value: flag.isSecret ? '[secret]' : value, from: origin }]]
    })
    return Object.fromEntries(known)
  }

  value<T>(flag: DefaultedFlag<T>): T {
    const given = this.#find(flag)
    return this.#read(flag, given?.texts.at(-1) ?? flag.default, given?.origin ?? `--${flag.name}`)
  }

  optional<T>(flag: ValueFlag<T>): T | undefined {
    const given = this.#find(flag)
    const text = given?.texts.at(-1)
    return given === undefined || text === undefined ? undefined : this.#read(flag, text, given.origin)
  }

  /** Reads a text that stands elsewhere as the value of a flag. @param origin for messages */
  read<T>(flag: ValueFlag<T>, text: string, origin: string): T {
    return this.#read(flag, text, origin)
  }

  /** Returns the values of a flag with several values, or undefined if it was not given. */
  several<T>(flag: ValueFlag<T>): T[] | undefined {
    const given = this.#find(flag)
    if (given === undefined) return undefined
    if (given.texts.length === 0)
      throw new UsageError(`${given.origin}: is empty: ${flag.placeholder} is accepted`)
    return given.texts.map(text => this.#read(flag, text, given.origin))
  }

  /** A flag that the command does not take counts as absent. */
  #find(flag: Flag): Given | undefined {
    if (!this.#taken.includes(flag)) return undefined
    for (const source of this.#sources) {
      const given = source(flag)
      if (given !== undefined) return given
    }
    return undefined
  }

  #read<T>(flag: ValueFlag<T>, text: string, origin: string): T {
    try {
      return flag.read(text, this.#readFile)
    } catch (error) {
      if (error instanceof UsageError) throw new UsageError(`${origin}: ${error.message}`, { cause: error })
      throw error
    }
  }
}
