import { inspect } from 'node:util'
import {
  ApiError,
  type HookViolation,
  isApiError,
  isRecord,
  type KeysOf,
  type StatusCause,
  type UserInfo,
  unknownKeys,
  type ViolationReason,
} from '@setpoint/controller-runtime/api'
import { shorten } from '@setpoint/controller-runtime/internal'
import { deepEqual } from './deep-equal.ts'
import { parsePath } from './field-path.ts'
import type { Scope } from './kind-rules.ts'
import { objectLimits } from './object-limits.ts'
import type { ServedModel } from './served-model.ts'
import type { BareObject } from './stored-object.ts'
import { valueAt } from './violation.ts'

/**
 * Returns the object as the model's `default` hook completes it. Errors of the hook are ignored if the object breaks
 * the schema.
 * @throws ApiError 500 if the hook fails, or changes a part that the write cannot change
 */
export function runDefaultHook(
  served: ServedModel,
  object: BareObject,
  previous: BareObject | undefined,
  scope: Scope,
): BareObject {
  const { model } = served
  if (model.default === undefined) return object
  const draft: BareObject = structuredClone(object)
  const context = { previous: frozenCopy(previous), subresource: subresourceOf(scope) }
  return guarded(served, 'default', () => {
    let result: unknown
    try {
      result = model.default?.(draft, context)
    } catch (error) {
      if (served.schemas.validate(object).length === 0) throw error
      return object
    }
    refusePromise(result)
    const drafted: BareObject = decode(JSON.stringify(draft))
    // Of a plugin's kind these are spec and status.
    const changeable = new Set(['spec', 'status', ...Object.keys(served.hub.content)])
    const fixed = (of: BareObject) => Object.entries(of).filter(([field]) => !changeable.has(field))
    if (!deepEqual(Object.fromEntries(fixed(drafted)), Object.fromEntries(fixed(object))))
      throw new TypeError('it may change nothing but spec and status')
    const separate = model.subresources.status
    if (separate && scope === 'status' && !deepEqual(drafted.spec, object.spec))
      throw new TypeError('it may not change spec in a write to the status')
    if (separate && scope === 'object' && !deepEqual(drafted.status, object.status))
      throw new TypeError('it may not change status in a write to the object, only in one to the status')
    const completed = { ...object }
    for (const field of changeable) {
      if (drafted[field] === undefined) delete completed[field]
      else completed[field] = drafted[field]
    }
    return completed
  })
}

/**
 * Returns the violations that the model's `validate` hook reports, without those that it also reports for the stored
 * object: the same message for the same field, if the field has the same value.
 * @param isValid false if the object breaks the schema. Errors of the hook are then ignored.
 * @throws ApiError 500 if the hook fails
 */
export function runValidateHook(
  served: ServedModel,
  object: BareObject,
  previous: BareObject | undefined,
  scope: Scope,
  user: UserInfo,
  isValid: boolean,
): StatusCause[] {
  const { model } = served
  if (model.validate === undefined) return []
  const context = { previous: frozenCopy(previous), user, subresource: subresourceOf(scope) }
  const run = (subject: BareObject) => {
    try {
      return model.validate?.(subject, context)
    } catch (error) {
      if (isValid) throw error
      return undefined
    }
  }
  return guarded(served, 'validate', () => violationsLeft(object, context.previous, run))
}

/**
 * Does the same for the `admit` hook. The object has no other violations.
 * @throws ApiError 500 if the hook fails; 503 if it reads a kind that is not ready
 */
export function runAdmitHook(
  served: ServedModel,
  object: BareObject,
  previous: BareObject | undefined,
  scope: Scope,
  user: UserInfo,
): StatusCause[] {
  const { model, listerOf } = served
  if (model.admit === undefined || listerOf === undefined) return []
  const context = { previous: frozenCopy(previous), user, subresource: subresourceOf(scope) }
  return guarded(served, 'admit', () =>
    violationsLeft(object, context.previous, subject =>
      model.admit?.(subject, { ...context, lister: listerOf() }),
    ),
  )
}

/** Returns the violations that a hook reports, without those that it also reports for the stored object. */
function violationsLeft(
  object: BareObject,
  previous: BareObject | undefined,
  run: (subject: BareObject) => unknown,
): StatusCause[] {
  const causes = (subject: BareObject) => {
    const result = run(subject)
    refusePromise(result)
    return causesOf(result)
  }
  const found = causes(frozenCopy(object))
  if (found.length === 0 || previous === undefined) return found
  let known: StatusCause[]
  try {
    known = causes(previous)
  } catch {
    return found
  }
  return known.length === 0 ? found : found.filter(cause => !isKnown(cause, object, known, previous))
}

/**
 * Returns the violations that the `validate` hook reports for a stored object, as for an update that changes nothing.
 * @throws what the hook throws; TypeError if it returns something else than violations
 */
export function hookViolationsOf(served: ServedModel, stored: BareObject, user: UserInfo): StatusCause[] {
  const { model } = served
  if (model.validate === undefined) return []
  const object = frozenCopy(stored)
  const result: unknown = model.validate(object, { previous: object, user, subresource: undefined })
  refusePromise(result)
  return causesOf(result)
}

function isKnown(
  { field = '', reason, message }: StatusCause,
  object: BareObject,
  known: readonly StatusCause[],
  previous: BareObject | undefined,
): boolean {
  const isSame = (other: StatusCause) =>
    other.field === field && other.reason === reason && other.message === message
  const path = parsePath(field)
  return known.some(isSame) && deepEqual(valueAt(object, path), valueAt(previous, path))
}

/** @throws TypeError if the value is not what a `validate` hook returns */
function causesOf(result: unknown): StatusCause[] {
  if (result === undefined) return []
  if (!Array.isArray(result))
    throw new TypeError(`it must return an array of violations or undefined, and returned ${quoted(result)}`)
  // One more than a response reports, so that it says that there are more.
  return result.slice(0, objectLimits.violations + 1).map((violation: unknown) => {
    const [unknown] = isRecord(violation) ? unknownKeys(violation, violationKeys, 'a violation') : []
    if (unknown !== undefined) throw new TypeError(unknown)
    if (!isViolation(violation))
      throw new TypeError(
        `a violation must have a field, a message and perhaps one of the known reasons, and is ${quoted(violation)}`,
      )
    const { field, message, reason = 'FieldValueInvalid' } = violation
    return { field: shorten(field, 1000), message: shorten(message, 1000), reason }
  })
}

function quoted(value: unknown): string {
  return shorten(inspect(value, { breakLength: Infinity }), 100)
}

const violationKeys: KeysOf<HookViolation> = { field: true, message: true, reason: true }

const reasons: Readonly<Record<ViolationReason, true>> = {
  FieldValueRequired: true,
  FieldValueTypeInvalid: true,
  FieldValueInvalid: true,
  FieldValueNotSupported: true,
  FieldValueTooLong: true,
  FieldValueTooMany: true,
  FieldValueForbidden: true,
  FieldValueDuplicate: true,
}

function isViolation(value: unknown): value is HookViolation {
  if (!isRecord(value)) return false
  const { field, message, reason } = value
  const hasReason = reason === undefined || (typeof reason === 'string' && Object.hasOwn(reasons, reason))
  return typeof field === 'string' && typeof message === 'string' && hasReason
}

function refusePromise(result: unknown): void {
  if (typeof result !== 'object' || result === null || !('then' in result)) return
  // Its rejection would end the process.
  Promise.resolve(result).catch(() => undefined)
  throw new TypeError('it must be synchronous, but returned a promise')
}

/** @throws ApiError 500 that names the plugin, with the error of `run` as its cause only; 503 of `run` unchanged */
function guarded<T>(served: ServedModel, hook: string, run: () => T): T {
  try {
    return run()
  } catch (cause) {
    if (isApiError(cause, 'ServiceUnavailable')) throw cause
    const { plugin, model } = served
    const owner = plugin === undefined ? `the model ${model.kind}` : `plugin ${JSON.stringify(plugin)}`
    throw new ApiError(
      'InternalError',
      `the ${hook} hook of ${owner} failed for ${served.kindTitle}; nothing was stored, see the server's log`,
      undefined,
      { cause },
    )
  }
}

function subresourceOf(scope: Scope): 'status' | undefined {
  return scope === 'status' ? 'status' : undefined
}

function decode(json: string): BareObject {
  return JSON.parse(json)
}

function frozenCopy<T extends BareObject | undefined>(object: T): T
function frozenCopy(object: BareObject | undefined): BareObject | undefined {
  if (object === undefined) return undefined
  return freezeJson(decode(JSON.stringify(object)))
}

/** Freezes a JSON value and all that is in it. Much faster than a reviver of `JSON.parse`. */
export function freezeJson<T>(value: T): T {
  if (Array.isArray(value)) for (const item of value) freezeJson(item)
  else if (isRecord(value)) for (const key in value) freezeJson(value[key])
  return Object.freeze(value)
}
