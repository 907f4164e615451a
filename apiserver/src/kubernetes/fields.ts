import { isRecord } from '@setpoint/controller-runtime/api'

/** Fields of an object. In the functions below, a value of another type counts as absent. */
export type Fields = Readonly<Record<string, unknown>>

export function recordOf(value: unknown): Fields {
  return isRecord(value) ? value : {}
}

export function recordsOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

export function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(each => typeof each === 'string') : []
}
