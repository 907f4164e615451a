import { checkDnsLabel } from '@setpoint/controller-runtime/api'
import { Command } from 'commander'
import { quote, UsageError } from './flags-values.ts'

/** A plugin to create. */
export interface NewPlugin {
  /** A DNS label. Names the plugin, its npm package and the first label of its group. */
  readonly name: string
  readonly language: 'javascript' | 'typescript'
  /** Path of its folder; relative to the working directory. */
  readonly dir: string
}

/** Returns `setpoint create`, with its subcommand `plugin`. @param chosen gets the plugin to create */
export function createCommand(chosen: (plugin: NewPlugin) => void): Command {
  const plugin = new Command('plugin')
    .description('create the folder of a new plugin')
    .argument('<name>', "name of the plugin: lowercase letters, digits and '-'")
    .option('--typescript', 'write the plugin in TypeScript (default: JavaScript)')
    .option('--dir <PATH>', 'folder to create (default: the name)')
    .helpOption('-h, --help', 'print this text')
    .allowExcessArguments(false)
    .addHelpText(
      'after',
      `
The folder gets a kind, a reconciler with a finalizer, an object to ship, tests, a Dockerfile and a README. Nothing is
downloaded. An existing folder must be empty. At the end it prints the commands that install the SDK, test the plugin and run it.
`,
    )
    .action((name: string, { typescript = false, dir }: { typescript?: boolean; dir?: string }) => {
      const problem = checkDnsLabel(name)
      if (problem !== undefined) throw new UsageError(`the name of a plugin ${problem}; it is ${quote(name)}`)
      if (dir?.trim() === '') throw new UsageError('--dir: is empty: a directory is required')
      chosen({ name, language: typescript ? 'typescript' : 'javascript', dir: dir ?? name })
    })
  return new Command('create')
    .description('create the folder of a new plugin')
    .helpOption('-h, --help', 'print this text')
    .helpCommand(false)
    .addCommand(plugin)
}
