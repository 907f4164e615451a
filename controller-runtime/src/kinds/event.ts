import { defineBuiltInModel } from '../api/built-in-model.ts'
import { selectableField, singleValueIndex } from '../api/index-spec.ts'
import type { ObjectOf } from '../api/model.ts'
import { eventFields, fromEventsGroup, toEventsGroup, versionedFields } from './event-fields.ts'

/**
 * The kind `Event` of `v1`, as in Kubernetes. The same objects are events of `events.k8s.io/v1`. A built-in kind of the
 * server. One object stands for all occurrences of the same reason, type, object and reporter; `count` is their number.
 */
export const Event = defineBuiltInModel({
  group: '',
  version: 'v1',
  kind: 'Event',
  singular: 'event',
  plural: 'events',
  shortNames: ['ev'],
  scope: 'Namespaced',
  names: 'dns-subdomain',
  schema: eventFields,
  versions: [
    {
      name: 'v1',
      apiVersion: 'events.k8s.io/v1',
      schema: versionedFields,
      toHub: event => ({ spec: undefined, ...fromEventsGroup(event) }),
      fromHub: event => ({ spec: undefined, ...toEventsGroup(event) }),
    },
  ],
  indexes: [
    selectableField({ name: 'involvedObject.kind', indexFunc: event => event.involvedObject?.kind }),
    selectableField({
      name: 'involvedObject.namespace',
      indexFunc: event => event.involvedObject?.namespace,
    }),
    selectableField({ name: 'involvedObject.name', indexFunc: event => event.involvedObject?.name }),
    selectableField({ name: 'involvedObject.uid', indexFunc: event => event.involvedObject?.uid }),
    selectableField({
      name: 'involvedObject.apiVersion',
      indexFunc: event => event.involvedObject?.apiVersion,
    }),
    selectableField({
      name: 'involvedObject.resourceVersion',
      indexFunc: event => event.involvedObject?.resourceVersion,
    }),
    selectableField({
      name: 'involvedObject.fieldPath',
      indexFunc: event => event.involvedObject?.fieldPath,
    }),
    selectableField({ name: 'reason', indexFunc: event => event.reason }),
    selectableField({ name: 'reportingComponent', indexFunc: event => event.reportingComponent }),
    selectableField({
      name: 'source',
      indexFunc: event => event.source?.component || event.reportingComponent,
    }),
    selectableField({ name: 'type', indexFunc: event => event.type }),
    singleValueIndex({ name: 'lastTimestamp', order: 'DESC', indexFunc: event => event.lastTimestamp }),
  ],
})

/** Something that happened to an object, for people to read. */
export type Event = ObjectOf<typeof Event>
