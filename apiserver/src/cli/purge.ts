import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { errorMessage, nearestName, zeroRevision } from '@setpoint/controller-runtime/api'
import {
  definitionsOfGroup,
  GroupServedError,
  type KindContent,
  type PluginClaim,
  pluginsOfGroup,
  purgeGroup,
  removePluginObjects,
  storedGroups,
  surveyGroup,
} from '../operations/index.ts'
import type { Storage } from '../storage/index.ts'
import { exitCodes } from './exit-codes.ts'
import type { PurgeOptions } from './flags-purge.ts'
import { interruption } from './interruption.ts'
import { describeStore, withStore } from './open-store.ts'
import { countOf, ProgressLine } from './progress-line.ts'

/**
 * Removes what the store has of a group, after a question. Says before what is there, and afterwards what is gone.
 * @throws the errors of the store; GroupServedError if a server or a definition may serve the group; Error if objects
 * cannot be decrypted, and no
 *   configuration was given
 */
export async function purge(options: PurgeOptions): Promise<void> {
  const signal = interruption()
  await withStore(options.store, storage => purgeIn(storage, options, signal), options.encryption)
}

async function purgeIn(storage: Storage, options: PurgeOptions, signal: AbortSignal): Promise<void> {
  const { group, store, reservedDomain, dryRun, yes } = options
  const progress = new ProgressLine()
  const kinds = await surveyGroup({
    storage,
    group,
    signal,
    onProgress: keys => progress.show(() => `counting: ${countOf(keys, 'key')}`),
  })
  const plugins = await pluginsOfGroup(storage, { group, reservedDomain, signal })
  // No server has the embedded store open, so these plugins run nowhere.
  const removable = store.kind === 'embedded' ? plugins.filter(({ hasOthers }) => !hasOthers) : []
  progress.clear()
  if (kinds.length === 0 && removable.length === 0) {
    print(`${describeStore(store)} has nothing of ${group}${await adviceFor(group, storage, signal)}`)
    return
  }
  print(`${describeStore(store)} has of ${group}:`)
  for (const kind of kinds) print(`  ${describeKind(kind)}`)
  for (const { name } of removable) print(`  the Plugin object ${name}`)
  refuseDefined(group, await definitionsOfGroup(storage, { group, signal }))
  for (const warning of warningsOf(kinds)) print(warning)
  if (store.kind === 'etcd') refuseServed(group, plugins)
  if (dryRun) {
    print('Nothing was removed: this is a dry run.')
    return
  }
  const unknown = kinds.reduce((sum, { undecryptable }) => sum + undecryptable, 0)
  if (unknown > 0 && options.encryption === undefined)
    throw new Error(
      `the finalizers of ${countOf(unknown, 'object')} are not known, so nothing was removed: give the --encryption-provider-config of the servers`,
    )
  if (!yes && !(await isConfirmed(group, signal))) {
    print('Nothing was removed.')
    process.exitCode = exitCodes.failure
    return
  }
  let keys = 0
  try {
    await purgeGroup({
      storage,
      group,
      kinds,
      signal,
      onProgress: removed => {
        keys = removed
        progress.show(() => `removing: ${countOf(removed, 'key')}`)
      },
    })
    await removePluginObjects(storage, removable, signal)
  } catch (error) {
    progress.clear()
    if (error instanceof GroupServedError) throw error
    const why = signal.aborted ? errorMessage(signal.reason) : errorMessage(error)
    throw new Error(`${why}; ${countOf(keys, 'key')} are removed: run the command again for the rest`, {
      cause: error,
    })
  }
  progress.clear()
  const objects = kinds.reduce((sum, kind) => sum + kind.objects, 0)
  print(`Removed ${group}: ${countOf(objects, 'object')} of ${countOf(kinds.length, 'kind')}.`)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** `gadgets: 1,204 objects, 12 of them with finalizers; 1,204 unique values` */
function describeKind(kind: KindContent): string {
  const { plural, objects, withFinalizers, undecryptable, reservations, recordRevision, hasMigration } = kind
  const finalizers =
    withFinalizers === 0 ? '' : `, ${withFinalizers.toLocaleString('en-US')} of them with finalizers`
  const encrypted =
    undecryptable === 0 ? '' : `, ${undecryptable.toLocaleString('en-US')} of them cannot be decrypted`
  const others = [
    ...(reservations === 0 ? [] : [countOf(reservations, 'unique value')]),
    ...(recordRevision === zeroRevision ? [] : ['the record of its indexes and versions']),
    ...(hasMigration ? ['the progress of a migration'] : []),
  ]
  return [`${plural}: ${countOf(objects, 'object')}${finalizers}${encrypted}`, ...others].join('; ')
}

function warningsOf(kinds: readonly KindContent[]): string[] {
  const withFinalizers = kinds.reduce((sum, kind) => sum + kind.withFinalizers, 0)
  const undecryptable = kinds.reduce((sum, kind) => sum + kind.undecryptable, 0)
  const warnings = [
    'Objects of other groups stay, also those that these objects own and those that the plugin has shipped.',
  ]
  if (undecryptable > 0)
    warnings.unshift(
      `${countOf(undecryptable, 'object')} cannot be decrypted, so nobody knows whether a controller has to clean up.`,
    )
  if (withFinalizers > 0)
    warnings.unshift(
      `${countOf(withFinalizers, 'object has', 'objects have')} finalizers: no controller cleans up what belongs to them elsewhere. To let the plugin do that, install it again and delete the objects first.`,
    )
  return warnings
}

/**
 * Refuses if a server may serve the group. A server with the plugin writes the `Plugin` object again as soon as it is
 * deleted, so its absence says that none runs it.
 */
function refuseServed(group: string, plugins: readonly PluginClaim[]): void {
  const [plugin] = plugins
  if (plugin === undefined) return
  const { name, phase } = plugin
  throw new GroupServedError(
    `a server may still serve ${group}: the Plugin object ${name} (${phase}) has kinds of it. Remove the plugin from every server, delete the object, and run the command again; a server that still has the plugin writes the object again`,
  )
}

/** Refuses if a definition declares kinds of the group: it would stay, without its objects. */
function refuseDefined(group: string, definitions: readonly string[]): void {
  const [definition] = definitions
  if (definition === undefined) return
  throw new GroupServedError(
    `the CustomResourceDefinition ${definition} declares a kind of ${group}. Delete the definition, which deletes its objects: kubectl delete crd ${definition}`,
  )
}

async function adviceFor(group: string, storage: Storage, signal: AbortSignal): Promise<string> {
  const nearest = nearestName(group, await storedGroups(storage, signal))
  return nearest === undefined ? '' : `; did you mean ${nearest}?`
}

/** Asks to type the name of the group, since there is no way back. The end of the input is a no. */
async function isConfirmed(group: string, signal: AbortSignal): Promise<boolean> {
  const lines = createInterface({ input: process.stdin })
  try {
    process.stdout.write(`Only a backup brings it back. To remove it, type ${group}: `)
    const [answer] = await Promise.race([
      once(lines, 'line', { signal }),
      once(lines, 'close', { signal }).then(() => ['']),
    ])
    if (!process.stdin.isTTY) process.stdout.write('\n')
    return answer.trim() === group
  } catch (error) {
    if (signal.aborted) return false
    throw error
  } finally {
    lines.close()
    process.stdin.unref()
  }
}
