import { errorMessage } from '@setpoint/controller-runtime/api'
import { exitCodes } from './exit-codes.ts'
import { parseCommandLine } from './flags.ts'
import { UsageError } from './flags-values.ts'

/**
 * Runs the program. Standard output gets the help, the version, a token or its entry, a kubeconfig, the next steps with
 * a new plugin, what a command about the store found, a backup or what one has, definitions of a plugin's kinds, or one
 * line when the server listens; all else goes to standard error. Each command imports its modules when it runs, so that
 * the others start fast.
 */
export async function main(argv: readonly string[]): Promise<void> {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Its reader has seen enough, as in `setpoint status | head -1`.
    if (error.code !== 'EPIPE') throw error
  })
  try {
    const commandLine = parseCommandLine(argv, process.env)
    if (commandLine.command === 'serve') {
      const { serve } = await import('./serve.ts')
      await serve(commandLine)
    } else if (commandLine.command === 'dev') {
      const { dev } = await import('./dev.ts')
      await dev(commandLine)
    } else if (commandLine.command === 'token') {
      const { printToken } = await import('./token.ts')
      await printToken(commandLine.options)
    } else if (commandLine.command === 'service-account-token') {
      const { serviceAccountToken } = await import('./service-account-token.ts')
      await serviceAccountToken(commandLine.options)
    } else if (commandLine.command === 'kubeconfig') {
      const { printKubeconfig } = await import('./kubeconfig.ts')
      await printKubeconfig(commandLine.options)
    } else if (commandLine.command === 'status') {
      const { status } = await import('./status.ts')
      await status(commandLine.options)
    } else if (commandLine.command === 'check') {
      const { check } = await import('./check.ts')
      await check(commandLine.options)
    } else if (commandLine.command === 'purge') {
      const { purge } = await import('./purge.ts')
      await purge(commandLine.options)
    } else if (commandLine.command === 'backup') {
      const { backup } = await import('./backup.ts')
      await backup(commandLine.options)
    } else if (commandLine.command === 'restore') {
      const { restore } = await import('./restore.ts')
      await restore(commandLine.options)
    } else if (commandLine.command === 'verify') {
      const { verify } = await import('./restore.ts')
      await verify(commandLine.options)
    } else if (commandLine.command === 'reencrypt') {
      const { reencrypt } = await import('./reencrypt.ts')
      await reencrypt(commandLine.options)
    } else if (commandLine.command === 'definitions') {
      const { printDefinitions } = await import('./definitions.ts')
      await printDefinitions(commandLine.plugin)
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
