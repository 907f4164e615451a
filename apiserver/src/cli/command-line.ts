import { Command, CommanderError, Help, Option } from 'commander'
import { programCommit, programVersion } from '../program-version.ts'
import { createCommand, type NewPlugin } from './create-command.ts'
import { type CommandName, environmentName, type Flag, type GivenFlags } from './flag.ts'
import { configFlag } from './flags-settings.ts'
import { allFlags, areas, flagsOf } from './flags-table.ts'
import { UsageError } from './flags-values.ts'

/** The commands of `setpoint`. */
export const commands: Readonly<Record<CommandName, string>> = Object.freeze({
  serve: 'run the control plane',
  dev: 'run the control plane with the plugin in a folder, and reload the plugin when a file changes',
  token: 'make a token and its entry for --token-file',
  'service-account-token': 'request a short-lived token of a service account, and keep it in a file',
  kubeconfig: 'print a kubeconfig for kubectl and other clients of Kubernetes',
  status: 'say how servers, their store and plugins stand',
  check: 'walk the store, and say what is damaged or left over',
  purge: 'remove everything that an uninstalled plugin has left in the store',
  backup: 'write all objects, at one version, to a file',
  restore: 'replace the content of a store by that of a backup',
  verify: 'check that a backup is whole, and say what it has',
  reencrypt:
    'rewrite what is stored in the clear or with an old key, as the encryption of the store says now',
  definitions: "print a plugin's kinds as CustomResourceDefinitions of Kubernetes",
})

/** In the order of the help. */
const ownCommands = [
  'serve',
  'dev',
  'token',
  'service-account-token',
  'kubeconfig',
  'status',
  'check',
  'purge',
  'backup',
  'restore',
  'verify',
  'reencrypt',
  'definitions',
] as const

export type Arguments =
  | { readonly command: 'serve'; readonly given: GivenFlags }
  | { readonly command: 'token'; readonly given: GivenFlags }
  | { readonly command: 'kubeconfig'; readonly given: GivenFlags }
  | { readonly command: 'reencrypt'; readonly given: GivenFlags }
  /** `account` is `NAMESPACE/NAME`, not checked yet. */
  | { readonly command: 'service-account-token'; readonly given: GivenFlags; readonly account: string }
  | { readonly command: 'status'; readonly given: GivenFlags }
  | { readonly command: 'check'; readonly given: GivenFlags }
  /** `group` is not checked yet. */
  | { readonly command: 'purge'; readonly given: GivenFlags; readonly group: string }
  /** `dir` is the working directory by default. */
  | { readonly command: 'dev'; readonly given: GivenFlags; readonly dir: string }
  /** `-` for standard output. */
  | { readonly command: 'backup'; readonly given: GivenFlags; readonly file: string }
  /** A full backup, and the increments after it. */
  | { readonly command: 'restore'; readonly given: GivenFlags; readonly files: readonly string[] }
  | { readonly command: 'verify'; readonly given: GivenFlags; readonly files: readonly string[] }
  /** `plugin` is what `--plugin` takes, not checked yet. */
  | { readonly command: 'definitions'; readonly given: GivenFlags; readonly plugin: string }
  | { readonly command: 'create'; readonly plugin: NewPlugin }
  /** Text that was asked for: help or the version. */
  | { readonly command: undefined; readonly text: string }

const sources = `
A setting is taken from the command line, else from the environment. An empty environment variable counts as absent.
Settings with several values are separated by commas in the environment.
`

const examplesOfServe = `
Examples:
  setpoint serve --plugin ./my-plugin
  setpoint serve --config setpoint.yaml
  setpoint serve --listen 0.0.0.0:443 --tls-cert tls.crt --tls-key tls.key --token-file tokens.yaml`

/** For `serve`. */
const sourcesWithFile = `
A setting is taken from the command line, else from the environment, else from the configuration file. An empty
environment variable counts as absent. Settings with several values are separated by commas in the environment and
are a list in the configuration file:

  listen: 127.0.0.1:8090
  plugin: [./plugins/one, ./plugins/two]
`

/** For the commands that work with a server's store, and for `status`. */
const sourcesWithFileOfServer = `
A setting is taken from the command line, else from the environment, else from the configuration file of the server.
An empty environment variable counts as absent. Settings with several values are separated by commas in the
environment.
`

/** For `dev`. */
const sourcesOfDev = `
A setting is taken from the command line, else from the environment, else from the configuration file. An empty
environment variable counts as absent. The file can also have the settings of the plugin:

  listen: 127.0.0.1:9000
  plugins:
    my-plugin:
      greeting: Hello
`

/** Reads the command line, without Node and the script. @throws UsageError if it is wrong */
export function readArguments(argv: readonly string[]): Arguments {
  let result: Arguments | undefined
  let text = ''
  const output = {
    writeOut: (chunk: string) => {
      text += chunk
    },
    writeErr: () => {},
    getOutHelpWidth: () => 110,
  }
  const program = new Command('setpoint')
    .description('A Kubernetes-style control plane, extensible by plugins')
    .configureOutput(output)
    .exitOverride()
    .version(versionLine(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this text')
  for (const name of ownCommands) {
    const given = new Map<Flag, string[]>()
    const flags = flagsOf(name)
    const about = sourcesOf(name)
    const command = program
      .command(name)
      .summary(commands[name])
      .description(name === 'serve' ? `${commands[name]}\n${examplesOfServe}` : commands[name])
      .configureHelp({
        formatHelp: (command, help) => `${Help.prototype.formatHelp.call(help, command, help)}${about}`,
        // Without what commander adds: the description says the default already.
        optionDescription: ({ description }) => description,
      })
      .version(versionLine(), '--version', 'print the version')
      .helpOption('-h, --help', 'print this text')
      .allowExcessArguments(false)
    if (name === 'dev') command.argument('[dir]', 'folder of the plugin', '.')
    if (name === 'service-account-token') command.argument('<account>', 'service account, as NAMESPACE/NAME')
    if (name === 'definitions')
      command.argument('<plugin>', 'folder, package or archive of the plugin, as --plugin takes it')
    if (name === 'purge') command.argument('<group>', 'API group of the plugin, such as demo.example.com')
    if (name === 'backup') command.argument('<file>', 'file to write; - for standard output')
    if (name === 'restore' || name === 'verify')
      command.argument('<file...>', 'a full backup, and the increments after it in their order')
    command.action((argument: string | string[]) => {
      const files = [argument].flat()
      const [first = ''] = files
      if (name === 'purge') result = { command: name, given, group: first }
      else if (name === 'definitions') result = { command: name, given, plugin: first }
      else if (name === 'dev') result = { command: name, given, dir: first }
      else if (name === 'service-account-token') result = { command: name, given, account: first }
      else if (name === 'backup') result = { command: name, given, file: first }
      else if (name === 'restore' || name === 'verify') result = { command: name, given, files }
      else result = { command: name, given }
    })
    let area: string | undefined
    for (const flag of flags) {
      const option = optionOf(flag, name, given)
      if (name === 'serve') {
        area = areas.find(({ first }) => first === flag)?.title ?? area
        if (area !== undefined) option.helpGroup(`${area}:`)
      }
      command.addOption(option)
    }
  }
  const create = createCommand(plugin => {
    result = { command: 'create', plugin }
  })
  for (const each of [create, ...create.commands]) each.copyInheritedSettings(program)
  program.addCommand(create)
  try {
    program.parse(argv.length === 0 ? ['--help'] : argv, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode !== 0) throw new UsageError(describe(error, argv), { cause: error })
  }
  return result ?? { command: undefined, text }
}

function sourcesOf(command: CommandName): string {
  if (command === 'serve') return sourcesWithFile
  if (command === 'dev') return sourcesOfDev
  if (flagsOf(command).length === 0) return ''
  return configFlag.commands.includes(command) ? sourcesWithFileOfServer : sources
}

function optionOf(flag: Flag, command: CommandName, given: Map<Flag, string[]>): Option {
  const { bare, placeholder, description, default: fallback } = { ...flag, ...flag.differs?.[command] }
  const notes = [
    ...(flag.kind === 'repeatable' ? ['repeatable'] : []),
    ...(fallback === undefined || placeholder === '' ? [] : [`default: ${fallback}`]),
    environmentName(flag, command),
  ]
  const value = placeholder === '' ? '' : bare === undefined ? ` <${placeholder}>` : ` [${placeholder}]`
  const option = new Option(`--${flag.name}${value}`, `${description} (${notes.join(', ')})`)
  if (bare !== undefined) option.preset(bare)
  return option.argParser((text: string) => {
    // More likely a forgotten value than a value.
    if (allFlags.some(({ name }) => text === `--${name}`))
      throw new UsageError(`--${flag.name} needs a value: ${flag.placeholder}`)
    const texts = given.get(flag) ?? []
    given.set(flag, [...texts, text])
    return text
  })
}

/** Puts commander's message on one line, with a pointer to the help. */
function describe({ code, message }: CommanderError, argv: readonly string[]): string {
  const [first, second] = argv
  const text =
    code === 'commander.help'
      ? `${first} needs a command`
      : message.replace(/^error: /, '').replaceAll('\n', ' ')
  const isKnown = first === 'create' || Object.hasOwn(commands, first ?? '')
  const command = first === 'create' && second === 'plugin' ? 'create plugin ' : isKnown ? `${first} ` : ''
  return `${text}; see \`setpoint ${command}--help\``
}

/** Returns the version with what else a report of a fault needs. */
function versionLine(): string {
  const commit = programCommit()
  const of = commit === '' ? '' : `commit ${commit.slice(0, 8)}, `
  return `setpoint ${programVersion()} (${of}Node ${process.version})`
}
