import type { UserInfo } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { exitCodes } from './exit-codes.ts'
import { parseCommandLine } from './flags.ts'
import type { TokenOutput } from './flags-table.ts'
import { UsageError } from './flags-values.ts'

/**
 * Runs the program. Standard output gets the help, the version, a token or its entry, a kubeconfig, the next steps with a new plugin, or
 * one line when the server listens; all else goes to standard error. Each command imports its modules when it runs, so that
 * the others start fast.
 */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    const commandLine = parseCommandLine(argv, process.env)
    if (commandLine.command === 'serve') {
      const { serve } = await import('./serve.ts')
      await serve(commandLine.options, commandLine.warnings)
    } else if (commandLine.command === 'dev') {
      const { dev } = await import('./dev.ts')
      await dev(commandLine)
    } else if (commandLine.command === 'token') await printToken(commandLine.user, commandLine.output)
    else if (commandLine.command === 'service-account-token') {
      const { serviceAccountToken } = await import('./service-account-token.ts')
      await serviceAccountToken(commandLine.options)
    } else if (commandLine.command === 'kubeconfig') {
      const { printKubeconfig } = await import('./kubeconfig.ts')
      await printKubeconfig(commandLine.options)
    } else if (commandLine.command === 'create') {
      const { createPlugin } = await import('./create-plugin.ts')
      process.stdout.write(await createPlugin(commandLine.plugin))
    } else process.stdout.write(commandLine.text)
  } catch (error) {
    const usage = error instanceof UsageError
    process.stderr.write(`setpoint: ${errorMessage(error)}\n`)
    process.exitCode = usage ? exitCodes.usage : exitCodes.failure
  }
}

/** Prints a token and its entry for the token file. Neither is stored, so every output has both. */
async function printToken(user: UserInfo, output: TokenOutput): Promise<void> {
  const { makeToken } = await import('../security/token-list.ts')
  const { token, sha256, entry } = makeToken(user)
  if (output === 'json') {
    const { name, groups } = user
    process.stdout.write(`${JSON.stringify({ user: name, groups, sha256, token })}\n`)
  } else if (output === 'token') {
    process.stderr.write(entry)
    process.stdout.write(`${token}\n`)
  } else {
    process.stderr.write(`The token of ${user.name}, which is not stored anywhere: ${token}\n`)
    process.stdout.write(entry)
  }
}
