import type { Call, History, Violation } from '../history.ts'
import { versionOf } from '../objects.ts'

const judge = 'restores'

/**
 * A server that ran while the store was restored refuses everything until it is started again, except for reads from memory of
 * the state before. Its watches stay open, and send nothing of the restored store. No watch goes on over a restore. The other
 * judges see to what the restored store has: for them a restore deletes every object, and puts what the backup had.
 */
export function judgeRestores(history: History): Violation[] {
  const found: Violation[] = []
  for (const call of history.calls) {
    const { id, type, at, server, outcome, token } = call
    if (outcome.type !== 'responded' || outcome.status >= 500 || isFromMemory(call)) continue
    // Roles and tokens are in memory, too.
    if (token !== undefined && (outcome.status === 401 || outcome.status === 403)) continue
    const restore = overrun(history, { server, from: at, to: outcome.at })
    if (restore === undefined) continue
    const message = `call ${id} (${type}) got ${outcome.status} from server ${server}, which ran during the restore at ${restore.at}`
    found.push({ judge, at: outcome.at, message })
  }
  for (const { id, server, messages, from } of history.watches) {
    let known = from
    for (const { at, type, object } of messages) {
      const version = versionOf(object)
      const say = (message: string) =>
        found.push({ judge, at, message: `watch ${id} sent ${type} of ${version} ${message}` })
      const restore = overrun(history, { server, from: at, to: at })
      if (restore !== undefined && version >= restore.revision)
        say(`from server ${server}, which ran during the restore at ${restore.at}`)
      if (
        history.restores.some(
          ({ revision }) => known !== undefined && known < revision && version >= revision,
        )
      )
        say(`after ${known} instead of 410, although the store was restored between`)
      if (type === 'BOOKMARK' || known !== undefined) known = Math.max(known ?? 0, version || 0)
    }
  }
  return found
}

/** Returns whether a server may respond without asking the store. */
export function isFromMemory(call: Call): boolean {
  if (call.type === 'write') return false
  return call.stale || (call.type === 'list' && call.page !== undefined && call.page.first !== call.id)
}

/** Returns the first restore after which a server was not started until the end of a time, if the time began after it. */
export function overrun(
  { restores, starts }: Pick<History, 'restores' | 'starts'>,
  { server, from, to }: { readonly server: number; readonly from: number; readonly to: number },
): History['restores'][number] | undefined {
  return restores.find(
    restore =>
      restore.at < from &&
      !starts.some(each => each.server === server && each.at >= restore.at && each.at <= to),
  )
}
