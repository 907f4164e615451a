import { createHash } from 'node:crypto'
import { singleValueIndex } from '../api/index-spec.ts'
import { defineModel, type ObjectOf } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'

/**
 * The kind `events.<reserved domain>/v1`, after `Event` of Kubernetes. One object stands for every time that the same
 * reporter said the same reason, in the same type, of the same object; `count` says how often.
 */
export function eventModel(reservedDomain: string) {
  return defineModel({
    group: `events.${reservedDomain}`,
    version: 'v1',
    kind: 'Event',
    singular: 'event',
    plural: 'events',
    schema: {
      spec: {
        type: 'object',
        required: ['regarding', 'type', 'reason', 'count', 'firstTimestamp', 'lastTimestamp'],
        properties: {
          regarding: {
            type: 'object',
            description: 'The object that it is about.',
            required: ['apiVersion', 'kind', 'name', 'uid'],
            properties: {
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              name: { type: 'string' },
              uid: { type: 'string' },
            },
          },
          type: { type: 'string', enum: ['Normal', 'Warning'] },
          reason: {
            type: 'string',
            minLength: 1,
            maxLength: 128,
            description: 'One word in CamelCase, for programs.',
          },
          message: { type: 'string', maxLength: 1024, description: 'For people; that of the last time.' },
          reporter: { type: 'string', description: 'Who says so: a plugin or controller.' },
          count: { type: 'integer', minimum: 1 },
          firstTimestamp: { type: 'string', format: 'date-time' },
          lastTimestamp: { type: 'string', format: 'date-time' },
        },
      },
    },
    indexes: [
      singleValueIndex({ name: 'spec.regarding.uid', indexFunc: event => event.spec.regarding.uid }),
      singleValueIndex({ name: 'spec.regarding.name', indexFunc: event => event.spec.regarding.name }),
      singleValueIndex({ name: 'spec.regarding.kind', indexFunc: event => event.spec.regarding.kind }),
      singleValueIndex({ name: 'spec.type', indexFunc: event => event.spec.type }),
      singleValueIndex({ name: 'spec.reason', indexFunc: event => event.spec.reason }),
      singleValueIndex({
        name: 'spec.lastTimestamp',
        order: 'DESC',
        indexFunc: event => event.spec.lastTimestamp,
      }),
    ],
    printerColumns: [
      { name: 'Last', type: 'date', jsonPath: '.spec.lastTimestamp' },
      { name: 'Type', type: 'string', jsonPath: '.spec.type' },
      { name: 'Reason', type: 'string', jsonPath: '.spec.reason' },
      { name: 'Object', type: 'string', jsonPath: '.spec.regarding.name' },
      { name: 'Message', type: 'string', jsonPath: '.spec.message' },
      { name: 'Count', type: 'integer', jsonPath: '.spec.count' },
    ],
  })
}

/** The model of the kind `Event`. */
export type EventModel = ReturnType<typeof eventModel>
/** Something that happened to an object, said for people. */
export type Event = ObjectOf<EventModel>
/** What an event says. */
export type EventSpec = Event['spec']

/** The same for whatever is one event, in every process; readable at its beginning. */
export function eventName(
  { apiVersion, kind, metadata: { name, uid } }: ApiObject,
  type: string,
  reason: string,
  reporter: string,
): string {
  const identity = JSON.stringify([apiVersion, kind, name, uid, type, reason, reporter])
  const digest = createHash('sha256').update(identity).digest('hex').slice(0, 20)
  return `${name.slice(0, 200).replace(/-+$/, '')}-${digest}`
}
