import { type History, titleOf, type Violation } from '../history.ts'
import { specOf } from '../objects.ts'

const judge = 'unique values'

/** No two objects have one value of a unique index at any revision, and a refused duplicate had a holder. */
export function judgeUniqueValues({ commits, calls }: History): Violation[] {
  const found: Violation[] = []
  const kinds = new Map(calls.map(({ resource }) => [titleOf(resource), resource]))
  /** Who holds a value, by kind and value. */
  const holders = new Map<string, string>()
  const held = new Map<string, string>()
  for (const { resource, namespace, name, object, revision, at } of commits) {
    const field = kinds.get(resource)?.unique
    if (field === undefined) continue
    const id = `${resource}/${namespace ?? ''}/${name}`
    const old = held.get(id)
    if (old !== undefined && holders.get(old) === id) holders.delete(old)
    held.delete(id)
    const value = specOf(object)[field]
    if (value === undefined) continue
    const key = `${resource}=${String(value)}`
    const other = holders.get(key)
    if (other !== undefined)
      found.push({ judge, at, message: `${name} has at ${revision} the value ${String(value)} of ${other}` })
    holders.set(key, id)
    held.set(id, key)
  }
  return [...found, ...calls.flatMap(call => judgeDuplicate(call, commits))]
}

function judgeDuplicate(call: History['calls'][number], commits: History['commits']): Violation[] {
  const { outcome, resource } = call
  if (call.type !== 'write' || outcome.type !== 'responded' || outcome.status !== 409) return []
  if (!(JSON.stringify(outcome.body) ?? '').includes('FieldValueDuplicate')) return []
  const { unique } = resource
  const value = unique === undefined ? undefined : call.request.spec?.[unique]
  const { namespace, name } = call.request
  const wasHeld = commits.some(
    each =>
      each.resource === titleOf(resource) &&
      !(each.name === name && each.namespace === namespace) &&
      each.at <= outcome.at &&
      unique !== undefined &&
      specOf(each.object)[unique] === value &&
      isStillThere(each, commits, call.at),
  )
  if (wasHeld) return []
  return [
    {
      judge,
      at: call.at,
      message: `call ${call.id} was refused for the value ${String(value)}, which nobody had`,
    },
  ]
}

/** Returns whether no later change of the object had been committed before a time. */
function isStillThere(
  commit: History['commits'][number],
  commits: History['commits'],
  time: number,
): boolean {
  const next = commits.find(
    each =>
      each.revision > commit.revision &&
      each.resource === commit.resource &&
      each.namespace === commit.namespace &&
      each.name === commit.name,
  )
  return next === undefined || next.at >= time
}
