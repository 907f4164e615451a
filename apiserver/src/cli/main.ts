import type { UserInfo } from '@setpoint/controller-runtime'
import { exitCodes } from './exit-codes.ts'
import { parseCommandLine, UsageError } from './flags.ts'

/**
 * Runs the program. Standard output gets the help, the version, the entry of a token, or one line when the server
 * listens; all else goes to standard error. Each command imports its modules when it runs, so that the others start fast.
 */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    const commandLine = parseCommandLine(argv, process.env)
    if (commandLine.command === 'serve') {
      const { serve } = await import('./serve.ts')
      await serve(commandLine.options, commandLine.warnings)
    } else if (commandLine.command === 'token') await printToken(commandLine.user)
    else process.stdout.write(commandLine.text)
  } catch (error) {
    const usage = error instanceof UsageError
    process.stderr.write(`setpoint: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = usage ? exitCodes.usage : exitCodes.failure
  }
}

/** Prints the entry to standard output, which can be appended to the token file, and the token to standard error. */
async function printToken(user: UserInfo): Promise<void> {
  const { makeToken } = await import('../security/token-list.ts')
  const { token, entry } = makeToken(user)
  process.stderr.write(`The token of ${user.name}, which is not stored anywhere: ${token}\n`)
  process.stdout.write(entry)
}
