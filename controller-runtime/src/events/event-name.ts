import { createHash } from 'node:crypto'
import { checkSubdomain } from '../api/names.ts'
import type { ApiObject } from '../api/object.ts'

/** Returns the same name in every process for occurrences of the same event; it starts with the object's name. */
export function eventName(
  { apiVersion, kind, metadata: { name, uid } }: ApiObject,
  type: string,
  reason: string,
  reporter: string,
): string {
  const identity = JSON.stringify([apiVersion, kind, name, uid, type, reason, reporter])
  const digest = createHash('sha256').update(identity).digest('hex').slice(0, 20)
  const start = name.slice(0, 200).replace(/[-.]+$/, '')
  // Not every name of an object is one of an event.
  return `${checkSubdomain(start) === undefined ? start : kind.toLowerCase()}.${digest}`
}
