import type { Logger } from '@setpoint/controller-runtime'
import type { ProgramLog } from '../log/index.ts'
import { codeFrameOf, explainFault, stackWithin } from '../plugins/index.ts'
import type { DevCommand } from './flags.ts'
import { FolderWatch, isTest } from './folder-watch.ts'
import { runUntilStopped, type Started } from './serve.ts'
import { startServer } from './server.ts'
import { settingsInShort } from './settings-in-short.ts'
import { linesOfServer } from './start-lines.ts'
import { TypeScriptBuild } from './typescript-build.ts'

export const devDefaults = Object.freeze({
  /** Lines of a failed compilation that are logged. The first ones name the cause. */
  shownComplaints: 20,
  /** Frames of a stack. Node's ten may all be of the SDK when a plugin's call to the client throws. */
  stackFrames: 25,
})

/**
 * Serves with the plugin in a folder until a signal asks to stop. Compiles and reloads the plugin when one of its files
 * changes. If that fails, the code that ran before keeps running.
 *
 * @throws the errors of the start
 */
export function dev(command: DevCommand): Promise<void> {
  const { options, configFile, plugin, warnings } = command
  // Stacks of compiled code name the lines of its sources.
  process.setSourceMapsEnabled(true)
  Error.stackTraceLimit = devDefaults.stackFrames
  const about = {
    options,
    settings: settingsInShort(options, configFile),
    warnings,
    explain: (error: Error) => {
      const frame = codeFrameOf(error, plugin.path)
      return frame === undefined ? undefined : { stack: stackWithin(error, plugin.path), frame }
    },
  }
  return runUntilStopped(about, programLog => start(command, programLog))
}

async function start({ options, settings, plugin }: DevCommand, programLog: ProgramLog): Promise<Started> {
  const { logger: log } = programLog
  const { path: dir, label } = plugin
  const build = await TypeScriptBuild.of(dir)
  let isCompiled = false
  // Opened before the code is loaded, so that no change is missed.
  const watch = await FolderWatch.open({
    dir,
    output: build?.output,
    changed: async paths => {
      // The error of the start ends the process.
      const server = await starting.catch(() => undefined)
      if (server === undefined) return
      // A test counts only while the code does not compile, because its own error may be the cause.
      const files = [...paths].filter(path => !isCompiled || !isTest(path))
      if (files.length === 0) return
      log.info({ files }, 'files have changed, reloading the plugin')
      isCompiled = await compile(build, log)
      if (isCompiled) await server.reloadPlugin(label)
      else log.error({ dir }, 'failed to compile the plugin; the code that was loaded before keeps running')
    },
    failed: (err, folder) => log.warn({ err, dir: folder }, 'failed to watch a folder for changes'),
  })
  const losses = () => programLog.losses
  const explain = (error: unknown) => explainFault(error, dir)
  const starting = compile(build, log).then(isComplete => {
    isCompiled = isComplete
    if (!isComplete) log.error({ dir }, 'failed to compile the plugin; it is loaded when an edit repairs it')
    return startServer({ options, settings }, log, losses, undefined, explain)
  })
  const server = await starting.catch((error: unknown) => {
    watch.close()
    throw error
  })
  return {
    lines: linesOfServer(server.url, options, server.consoleUrl),
    running: {
      stop(how) {
        watch.close()
        return server.stop(how)
      },
    },
  }
}

/** Compiles a plugin in TypeScript and logs the compiler's complaints. Returns true if its code can be loaded. */
async function compile(build: TypeScriptBuild | undefined, log: Logger): Promise<boolean> {
  const complaints = (await build?.compile()) ?? []
  for (const complaint of complaints.slice(0, devDefaults.shownComplaints)) log.error({}, complaint)
  return complaints.length === 0
}
