import { parseArgs } from 'node:util'
import { readConfigFile, splitList } from './config.ts'
import {
  allFlags,
  type CommandName,
  type DefaultedFlag,
  environmentName,
  type Flag,
  flags,
  flagsOf,
  type ValueFlag,
} from './flags-table.ts'
import { type ReadFile, UsageError } from './flags-values.ts'

/** The flags on the command line with their texts, in the order given, and what stands there beside flags. */
export function readArguments(argv: readonly string[]): {
  given: ReadonlyMap<Flag, readonly string[]>
  positionals: readonly string[]
} {
  const options = Object.fromEntries(
    allFlags.map(flag => [flag.name, { type: flag.kind === 'switch' ? 'boolean' : 'string' } as const]),
  )
  // Not strict: the messages of strict parsing run over several sentences and do not name what is accepted.
  const { tokens } = parseArgs({
    args: [...argv],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const given = new Map<Flag, string[]>()
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const flag = allFlags.find(({ name }) => name === token.name)
    if (flag === undefined || !token.rawName.startsWith('--')) {
      throw new UsageError(`unknown flag ${token.rawName}; \`setpoint serve --help\` lists the flags`)
    }
    const texts = given.get(flag) ?? []
    given.set(flag, texts)
    if (flag.kind === 'switch') {
      if (token.value !== undefined) throw new UsageError(`--${flag.name} takes no value`)
    } else if (token.value === undefined) {
      throw new UsageError(`--${flag.name} needs a value: ${flag.placeholder}`)
    } else if (!token.inlineValue && token.value.startsWith('-')) {
      // More likely a forgotten value than one that begins with a dash.
      throw new UsageError(
        `--${flag.name} needs a value; one that begins with '-' is written --${flag.name}=VALUE`,
      )
    } else {
      texts.push(token.value)
    }
  }
  return { given, positionals }
}

/** What was given for a flag, and where. */
interface Given {
  readonly texts: readonly string[]
  /** For messages: `--listen`, `SETPOINT_LISTEN` or `setpoint.yaml:3: listen`. */
  readonly origin: string
}

/** The flags of a command over the three places that they can be given in. */
export class Settings {
  readonly #sources: readonly ((flag: Flag) => Given | undefined)[]
  readonly #readFile: ReadFile

  constructor(
    command: CommandName,
    onCommandLine: ReadonlyMap<Flag, readonly string[]>,
    env: Readonly<Record<string, string | undefined>>,
    readFile: ReadFile,
  ) {
    this.#readFile = readFile
    const foreign = [...onCommandLine.keys()].find(flag => !flagsOf(command).includes(flag))
    if (foreign !== undefined)
      throw new UsageError(
        `${command} takes no --${foreign.name}; \`setpoint ${command} --help\` lists the flags`,
      )
    const commandLine = (flag: Flag): Given | undefined => {
      const texts = onCommandLine.get(flag)
      if (texts === undefined) return undefined
      return { texts: flag.kind === 'list' ? splitList(texts.at(-1) ?? '') : texts, origin: `--${flag.name}` }
    }
    const environment = (flag: Flag): Given | undefined => {
      const origin = environmentName(flag)
      const text = env[origin]
      // Manifests and scripts set variables to nothing where they mean to leave them out.
      if (text === undefined || text === '') return undefined
      return { texts: flag.kind === 'value' ? [text] : splitList(text), origin }
    }
    this.#sources = [commandLine, environment]
    const taken = flagsOf(command)
    const configFile = taken.includes(flags.config) ? this.optional(flags.config) : undefined
    if (configFile !== undefined) {
      const accepted = taken.filter(flag => flag.kind !== 'switch' && flag !== flags.config)
      const entries = readConfigFile(configFile, accepted)
      this.#sources = [...this.#sources, flag => entries.get(flag)]
    }
  }

  /** Where a flag was given, for messages; undefined where it was not. */
  origin(flag: Flag): string | undefined {
    return this.#find(flag)?.origin
  }

  /** Whether a flag stands on the command line itself. */
  isOnCommandLine(flag: Flag): boolean {
    return this.origin(flag) === `--${flag.name}`
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

  /** The values of a flag that may have several; undefined where it was not given. */
  several<T>(flag: ValueFlag<T>): T[] | undefined {
    const given = this.#find(flag)
    if (given === undefined) return undefined
    if (given.texts.length === 0)
      throw new UsageError(`${given.origin}: is empty: ${flag.placeholder} is accepted`)
    return given.texts.map(text => this.#read(flag, text, given.origin))
  }

  #find(flag: Flag): Given | undefined {
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
