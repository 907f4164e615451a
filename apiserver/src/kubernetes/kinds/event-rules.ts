/** The rules for events, as in Kubernetes' `pkg/apis/core/validation/events.go`. Fields have their names in `v1`. */
import {
  checkLabelKey,
  type HookObject,
  type HookViolation,
  isRecord,
} from '@setpoint/controller-runtime/api'
import type { Event } from '@setpoint/controller-runtime/internal'
import { deepEqual } from '../../model/index.ts'
import { type Fields, recordOf, textOf } from '../fields.ts'
import { permanentNamespaces } from './namespace.ts'

/** Characters of the fields of an event with an `eventTime`. */
const limits = Object.freeze({ reason: 128, action: 128, reportingInstance: 128, message: 1_024 })

/**
 * Returns the violations that count in both versions. Events with an `eventTime` follow stricter rules than those with
 * a count.
 */
export function problemsOfEvent(event: HookObject<Event>): HookViolation[] {
  const about = event.involvedObject?.namespace
  const { namespace = '' } = event.metadata
  const isNew = event.eventTime !== undefined
  const isThere = isNew
    ? about || permanentNamespaces.includes(namespace)
    : namespace === (about || 'default')
  const mismatch = { field: 'involvedObject.namespace', message: 'does not match event.namespace' }
  return [...(isThere ? [] : [mismatch]), ...(isNew ? problemsOfNewEvent(event) : [])]
}

function problemsOfNewEvent(event: HookObject<Event>): HookViolation[] {
  const problems: HookViolation[] = []
  for (const field of ['reportingComponent', 'reportingInstance', 'action', 'reason'] as const)
    if (!event[field])
      problems.push({
        field,
        reason: 'FieldValueRequired',
        message: 'is required in an event with eventTime',
      })
  const { reportingComponent: reporter } = event
  if (reporter && checkLabelKey(reporter) !== undefined) {
    const message = 'must be a name such as kubelet, or one after a domain, such as example.com/controller'
    problems.push({ field: 'reportingComponent', message })
  }
  for (const field of ['reportingInstance', 'action', 'reason', 'message'] as const) {
    const { [field]: text = '' } = event
    if (text.length > limits[field])
      problems.push({ field, message: `must be at most ${limits[field]} characters, is ${text.length}` })
  }
  return problems
}

const setLater = ['firstTimestamp', 'lastTimestamp', 'count', 'source']

/** Returns the violations of an event that is created in `events.k8s.io`, besides those above. */
export function problemsOfCreation(event: Fields): HookViolation[] {
  const problems = problemsOfSeries(event.series)
  if (event.eventTime === undefined)
    problems.push({ field: 'eventTime', reason: 'FieldValueRequired', message: 'is required' })
  if (event.type !== 'Normal' && event.type !== 'Warning')
    problems.push({ field: 'type', message: 'must be Normal or Warning' })
  for (const field of setLater)
    if (bare(event[field]) !== undefined) problems.push({ field, message: 'must be absent in a new event' })
  return problems
}

/** The fields that a write to `events.k8s.io` cannot change: all but the series. */
const fixed = [
  ...['involvedObject', 'related', 'reason', 'message', 'source', 'count', 'type', 'action'],
  ...['reportingComponent', 'reportingInstance'],
]

/** The times that it cannot change, with their decimals. Clients in Go write no more than these. */
const fixedTimes = { eventTime: 6, firstTimestamp: 0, lastTimestamp: 0 }

/** Returns the violations of an event that is changed in `events.k8s.io`, besides those above. */
export function problemsOfChange(event: Fields, previous: Fields): HookViolation[] {
  const problems = deepEqual(event.series, previous.series) ? [] : problemsOfSeries(event.series)
  const changed = [
    ...fixed.filter(field => !deepEqual(bare(event[field]), bare(previous[field]))),
    ...Object.entries(fixedTimes)
      .filter(([field, decimals]) => timeOf(event[field], decimals) !== timeOf(previous[field], decimals))
      .map(([field]) => field),
  ]
  return [...problems, ...changed.map(field => ({ field, message: 'field is immutable' }))]
}

function problemsOfSeries(series: unknown): HookViolation[] {
  if (series === undefined) return []
  const { count, lastObservedTime } = recordOf(series)
  const problems: HookViolation[] = []
  if (typeof count !== 'number' || count < 2)
    problems.push({ field: 'series.count', message: 'must be at least 2' })
  if (lastObservedTime === undefined)
    problems.push({ field: 'series.lastObservedTime', reason: 'FieldValueRequired', message: 'is required' })
  return problems
}

/** Leaves out zero values. Clients in Go send them for fields that are not set. */
function bare(value: unknown): unknown {
  if (!isRecord(value)) return value === '' || value === 0 ? undefined : value
  const fields = Object.entries(value)
    .map(([field, each]) => [field, bare(each)] as const)
    .filter(([, each]) => each !== undefined)
  return fields.length === 0 ? undefined : Object.fromEntries(fields)
}

/** Returns the seconds of a time, cut after so many decimals. */
function timeOf(value: unknown, decimals: number): string {
  const text = textOf(value)
  const [, fraction = ''] = /\.(\d+)/.exec(text) ?? []
  return `${Math.floor(Date.parse(text) / 1000)}.${fraction.padEnd(decimals, '0').slice(0, decimals)}`
}
