import { isRecord } from '../api/is-record.ts'
import type { ApiObject } from '../api/object.ts'

/** Whether an object is as wanted. Undefined is one that is not there. */
export type WaitCondition<T extends ApiObject = ApiObject> = (object: T | undefined) => boolean

/** One that only objects satisfy that are there. */
type ObjectCondition = <T extends ApiObject>(object: T | undefined) => object is T

const exists: ObjectCondition = object => object !== undefined

/** Conditions for `waitFor`: `until.condition('Ready')`, `until.any(until.condition('Failed'), until.deleted(uid))`. */
export const until = Object.freeze({
  exists,

  /** There is no object of the name or, given a uid, at most one of another uid. */
  deleted(uid?: string): WaitCondition {
    return object => object === undefined || (uid !== undefined && object.metadata.uid !== uid)
  },

  /** The object is there and has been declared deleted: its finalizers are at work. */
  deleting(): ObjectCondition {
    return <T extends ApiObject>(object: T | undefined): object is T =>
      object?.metadata.deletionTimestamp !== undefined
  },

  /**
   * The object's `status.conditions` has the type with that status. One that names a generation which is no longer the
   * present one does not count: it was said of an older spec. (As `kubectl wait` does.)
   */
  condition(type: string, status: 'True' | 'False' | 'Unknown' = 'True'): ObjectCondition {
    return <T extends ApiObject>(object: T | undefined): object is T =>
      object !== undefined && saysCondition(object, type, status)
  },

  not<T extends ApiObject>(condition: WaitCondition<T>): WaitCondition<T> {
    return object => !condition(object)
  },

  /** Every one of them; with none, at once. */
  all<T extends ApiObject>(...conditions: readonly WaitCondition<T>[]): WaitCondition<T> {
    return object => conditions.every(condition => condition(object))
  },

  /** One of them at least. */
  any<T extends ApiObject>(...conditions: readonly WaitCondition<T>[]): WaitCondition<T> {
    return object => conditions.some(condition => condition(object))
  },
})

function saysCondition({ metadata, status }: ApiObject, type: string, wanted: string): boolean {
  const conditions: unknown = isRecord(status) ? status.conditions : undefined
  if (!Array.isArray(conditions)) return false
  const condition: unknown = conditions.find(candidate => isRecord(candidate) && candidate.type === type)
  if (!isRecord(condition) || condition.status !== wanted) return false
  const { observedGeneration } = condition
  return typeof observedGeneration !== 'number' || observedGeneration >= metadata.generation
}
