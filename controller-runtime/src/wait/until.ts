import { isRecord } from '../api/is-record.ts'
import type { ApiObject } from '../api/object.ts'

/** Returns true if an object is in the wanted state; `undefined` stands for a missing object. */
export type WaitCondition<T extends ApiObject = ApiObject> = (object: T | undefined) => boolean

/** A condition that only existing objects satisfy. */
type ObjectCondition = <T extends ApiObject>(object: T | undefined) => object is T

const exists: ObjectCondition = object => object !== undefined

/** Conditions for `waitFor`: `until.condition('Ready')`, `until.any(until.condition('Failed'), until.deleted(uid))`. */
export const until = Object.freeze({
  exists,

  /** The object does not exist or, given a uid, has another uid. */
  deleted(uid?: string): WaitCondition {
    return object => object === undefined || (uid !== undefined && object.metadata.uid !== uid)
  },

  /** The object exists and has a deletionTimestamp: its finalizers are running. */
  deleting(): ObjectCondition {
    return <T extends ApiObject>(object: T | undefined): object is T =>
      object?.metadata.deletionTimestamp !== undefined
  },

  /**
   * `status.conditions` has the type with that status. A condition with an older `observedGeneration` does not count,
   * as in `kubectl wait`.
   */
  condition(type: string, status: 'True' | 'False' | 'Unknown' = 'True'): ObjectCondition {
    return <T extends ApiObject>(object: T | undefined): object is T =>
      object !== undefined && hasCondition(object, type, status)
  },

  not<T extends ApiObject>(condition: WaitCondition<T>): WaitCondition<T> {
    return object => !condition(object)
  },

  /** All conditions hold; true for an empty list. */
  all<T extends ApiObject>(...conditions: readonly WaitCondition<T>[]): WaitCondition<T> {
    return object => conditions.every(condition => condition(object))
  },

  /** At least one condition holds. */
  any<T extends ApiObject>(...conditions: readonly WaitCondition<T>[]): WaitCondition<T> {
    return object => conditions.some(condition => condition(object))
  },
})

function hasCondition({ metadata, status }: ApiObject, type: string, wanted: string): boolean {
  const conditions: unknown = isRecord(status) ? status.conditions : undefined
  if (!Array.isArray(conditions)) return false
  const condition: unknown = conditions.find(candidate => isRecord(candidate) && candidate.type === type)
  if (!isRecord(condition) || condition.status !== wanted) return false
  const { observedGeneration } = condition
  return typeof observedGeneration !== 'number' || observedGeneration >= (metadata.generation ?? 0)
}
