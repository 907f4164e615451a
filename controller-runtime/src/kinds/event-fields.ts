import type { Schema } from '../api/schema.ts'
import { objectReference } from './object-reference.ts'

/** The fields of `Event` in its two groups, which are the same under other names. */

const text = (description: string) => ({ type: 'string', description }) as const satisfies Schema
const count = (description: string) =>
  ({ type: 'integer', format: 'int32', description }) as const satisfies Schema
const time = (description: string) =>
  ({ type: 'string', format: 'date-time', description }) as const satisfies Schema

const source = {
  type: 'object',
  description: 'Who reports the event.',
  properties: { component: text('The component.'), host: text('The machine that it runs on.') },
} as const satisfies Schema

const common = {
  reason: text('Why it happened: a stable word in CamelCase.'),
  type: text('Normal or Warning.'),
  action: text('What the reporter did, or failed to do: a stable word in CamelCase.'),
  eventTime: time('When it first happened, in microseconds.'),
  related: objectReference('Another object that the event is about.'),
  reportingInstance: text('The process that reports the event.'),
  series: {
    type: 'object',
    description: 'The repetitions, if there are any.',
    properties: {
      count: count('The number of occurrences up to the last one.'),
      lastObservedTime: time('When it last happened.'),
    },
  },
} as const satisfies Record<string, Schema>

/** The fields in `v1`. */
export const eventFields = {
  involvedObject: objectReference('The object that the event is about.'),
  message: text('What happened, in words.'),
  reportingComponent: text('Who reports the event, for example the name of a plugin.'),
  source,
  count: count('The number of occurrences.'),
  firstTimestamp: time('When it first happened.'),
  lastTimestamp: time('When it last happened.'),
  ...common,
} as const satisfies Record<string, Schema>

/** The fields in `events.k8s.io/v1`. */
export const versionedFields = {
  regarding: objectReference('The object that the event is about.'),
  note: text('What happened, in words.'),
  reportingController: text('Who reports the event, for example the name of a plugin.'),
  deprecatedSource: source,
  deprecatedCount: count('The number of occurrences. New reporters use series.'),
  deprecatedFirstTimestamp: time('When it first happened. New reporters use eventTime.'),
  deprecatedLastTimestamp: time('When it last happened. New reporters use series.'),
  ...common,
} as const satisfies Record<string, Schema>

/** The names of fields in `events.k8s.io/v1`, by those in `v1`. */
const renamed: Readonly<Record<string, string>> = {
  involvedObject: 'regarding',
  message: 'note',
  reportingComponent: 'reportingController',
  source: 'deprecatedSource',
  count: 'deprecatedCount',
  firstTimestamp: 'deprecatedFirstTimestamp',
  lastTimestamp: 'deprecatedLastTimestamp',
}

const original = Object.fromEntries(Object.entries(renamed).map(([field, name]) => [name, field]))

/** Returns the content of an event of `v1` in `events.k8s.io/v1`. */
export function toEventsGroup(event: object): Record<string, unknown> {
  return rename(event, eventFields, renamed)
}

/** Returns the content of an event of `events.k8s.io/v1` in `v1`. */
export function fromEventsGroup(event: object): Record<string, unknown> {
  return rename(event, versionedFields, original)
}

function rename(
  event: object,
  fields: object,
  names: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const content: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(event))
    if (Object.hasOwn(fields, field)) content[names[field] ?? field] = value
  return content
}
