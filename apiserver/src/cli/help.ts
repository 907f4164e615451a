import { type CommandName, environmentName, type Flag, flagsOf } from './flags-table.ts'

/** What `setpoint` runs when it is named first on the command line. */
export const commands: Readonly<Record<CommandName, string>> = Object.freeze({
  serve: 'run the control plane',
  token:
    'make a token for a user: the entry for --token-file on standard output, the token itself on standard error',
})

/** What `setpoint --help` prints. */
export function generalHelp(): string {
  const rows = Object.entries(commands).map(([name, description]) => `  setpoint ${name}    ${description}`)
  return [
    'setpoint: a Kubernetes-style control plane, extensible by plugins',
    '',
    'Commands:',
    ...rows,
    '',
    '`setpoint <command> --help` prints what a command takes; `setpoint --version` the version.',
    '',
  ].join('\n')
}

/** What `setpoint <command> --help` prints. */
export function commandHelp(command: CommandName): string {
  return [
    `setpoint ${command}: ${commands[command]}`,
    '',
    ...flagsOf(command).flatMap(describeFlag),
    'A setting is looked for on the command line, then in the environment, then in the configuration file. An empty',
    'environment variable counts as absent. What takes several values has commas between them in the environment, and',
    'in the configuration file is a list:',
    '',
    '  listen: 127.0.0.1:8090',
    '  plugin: [./plugins/one, ./plugins/two]',
    '',
  ].join('\n')
}

function describeFlag(flag: Flag): string[] {
  const usage = flag.placeholder === undefined ? `--${flag.name}` : `--${flag.name} ${flag.placeholder}`
  const notes = [
    ...(flag.kind === 'repeatable' ? ['repeatable'] : []),
    ...(flag.default === undefined ? [] : [`default ${flag.default}`]),
    ...(flag.kind === 'switch' ? [] : [environmentName(flag)]),
  ]
  const description = wrap(flag.description, 92).map(line => `      ${line}`)
  return [`  ${usage}`, ...description, ...(notes.length === 0 ? [] : [`      (${notes.join('; ')})`]), '']
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}
