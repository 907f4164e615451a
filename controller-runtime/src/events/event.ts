import { createHash } from 'node:crypto'
import { singleValueIndex } from '../api/index-spec.ts'
import { defineModel, type ObjectOf } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'

/**
 * The kind `events.<reserved domain>/v1`, modelled on Kubernetes' `Event`. One object stands for all occurrences of the
 * same reason, type, object and reporter; `count` is their number.
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
            description: 'The object that the event is about.',
            required: ['apiVersion', 'kind', 'name', 'uid'],
            properties: {
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              namespace: { type: 'string' },
              name: { type: 'string' },
              uid: { type: 'string' },
            },
          },
          type: { type: 'string', enum: ['Normal', 'Warning'] },
          reason: {
            type: 'string',
            minLength: 1,
            maxLength: 128,
            description: 'Machine-readable reason in CamelCase.',
          },
          message: {
            type: 'string',
            maxLength: 1024,
            description: 'Human-readable message of the latest occurrence.',
          },
          reporter: { type: 'string', description: 'The plugin or controller that reports the event.' },
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
/** Something that happened to an object, for people to read. */
export type Event = ObjectOf<EventModel>
/** The content of an event. */
export type EventSpec = Event['spec']

/** Returns the same name in every process for occurrences of the same event; it starts with the object's name. */
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
