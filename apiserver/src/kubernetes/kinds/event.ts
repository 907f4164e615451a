import { isRecord } from '@setpoint/controller-runtime/api'
import { Event } from '@setpoint/controller-runtime/internal'
import type { ComputedColumn } from '../../model/index.ts'
import { type Fields, recordOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'
import { problemsOfChange, problemsOfCreation, problemsOfEvent } from './event-rules.ts'

/** Returns the object of an event, in either version. */
function objectOf({ involvedObject, regarding }: Fields): Fields {
  return recordOf(involvedObject ?? regarding)
}

function firstTime(event: Fields): unknown {
  return event.firstTimestamp ?? event.deprecatedFirstTimestamp ?? event.eventTime
}

function lastTime(event: Fields): unknown {
  const { series, lastTimestamp, deprecatedLastTimestamp } = event
  const observed = isRecord(series) ? series.lastObservedTime : undefined
  return observed ?? lastTimestamp ?? deprecatedLastTimestamp ?? firstTime(event)
}

function countOf({ series, count, deprecatedCount }: Fields): unknown {
  return (isRecord(series) ? series.count : undefined) ?? count ?? deprecatedCount ?? 1
}

function titleOf(event: Fields): string {
  const { kind = '', name } = objectOf(event)
  const title = String(kind).toLowerCase()
  return name === undefined || name === '' ? title : `${title}/${name}`
}

function sourceOf(event: Fields): string {
  const { component, host } = recordOf(event.source ?? event.deprecatedSource)
  const reporter = component || event.reportingComponent || event.reportingController || ''
  const instance = host || event.reportingInstance
  return instance ? `${reporter}, ${instance}` : `${reporter}`
}

function messageOf({ message, note }: Fields): string {
  return String(message ?? note ?? '').trim()
}

/** As `kubectl get events` shows them. */
const columns: readonly ComputedColumn[] = [
  { name: 'Last Seen', type: 'date', description: 'The time since the last occurrence.', cell: lastTime },
  { name: 'Type', type: 'string', description: 'Normal or Warning.', cell: ({ type }) => type },
  { name: 'Reason', type: 'string', description: 'Why it happened.', cell: ({ reason }) => reason },
  { name: 'Object', type: 'string', description: 'The object that the event is about.', cell: titleOf },
  {
    name: 'Subobject',
    type: 'string',
    priority: 1,
    description: 'The part of the object.',
    cell: event => objectOf(event).fieldPath,
  },
  { name: 'Source', type: 'string', priority: 1, description: 'Who reports the event.', cell: sourceOf },
  { name: 'Message', type: 'string', description: 'What happened.', cell: messageOf },
  {
    name: 'First Seen',
    type: 'date',
    priority: 1,
    description: 'The time since the first occurrence.',
    cell: firstTime,
  },
  { name: 'Count', type: 'integer', priority: 1, description: 'The number of occurrences.', cell: countOf },
  {
    name: 'Name',
    type: 'string',
    format: 'name',
    priority: 1,
    description: 'The name of the event.',
    cell: ({ metadata }) => recordOf(metadata).name,
  },
]

const fieldsOfReferences = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath']

/** `Event` of `v1` and of `events.k8s.io/v1`: what happened to an object. The same objects under two groups. */
export const event: BuiltInKind = {
  model: { ...Event, validate: problemsOfEvent },
  rules: {
    columns,
    validate(object, previous, apiVersion) {
      if (apiVersion === Event.apiVersion) return []
      return previous === undefined ? problemsOfCreation(object) : problemsOfChange(object, previous)
    },
    fieldAliases: {
      reportingController: 'reportingComponent',
      ...Object.fromEntries(
        fieldsOfReferences.map(field => [`regarding.${field}`, `involvedObject.${field}`]),
      ),
    },
  },
}
