import { singleValueIndex } from '../../../controller-runtime/src/api/index-spec.ts'
import { defineModel } from '../../../controller-runtime/src/api/model.ts'
import { initialEventsEndAnnotation } from '../../../controller-runtime/src/api/object.ts'

/** The sample kind of the SDK's own tests. */
export const Gadget = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Gadget',
  singular: 'gadget',
  plural: 'gadgets',
  schema: {
    spec: {
      type: 'object',
      required: ['size'],
      properties: { size: { type: 'integer' }, colour: { type: 'string' } },
    },
    status: { type: 'object', properties: { phase: { type: 'string' }, seen: { type: 'integer' } } },
  },
  subresources: { status: true },
  indexes: [singleValueIndex({ name: 'spec.colour', indexFunc: gadget => gadget.spec.colour })],
})

/** A sample kind without the status subresource. */
export const PlainGadget = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'PlainGadget',
  singular: 'plaingadget',
  plural: 'plaingadgets',
  schema: { spec: { type: 'object' }, status: { type: 'object' } },
  indexes: [singleValueIndex({ name: 'never', indexFunc: () => undefined })],
})

/** The sample kind of dependents of gadgets. */
export const Part = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Part',
  singular: 'part',
  plural: 'parts',
  schema: {
    spec: { type: 'object', properties: { gadget: { type: 'string' }, colour: { type: 'string' } } },
    status: { type: 'object', properties: { phase: { type: 'string' } } },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.gadget', indexFunc: part => part.spec.gadget }),
    singleValueIndex({ name: 'spec.colour', indexFunc: part => part.spec.colour }),
  ],
})

/** A gadget as sent by a server. */
export function gadget(name: string, version: number, extra: { uid?: string; size?: number } = {}) {
  return {
    apiVersion: Gadget.apiVersion,
    kind: Gadget.kind,
    metadata: {
      name,
      uid: extra.uid ?? `uid-of-${name}`,
      version: String(version),
      resourceVersion: String(version),
      generation: 1,
      creationTimestamp: '2030-01-01T00:00:00.000Z',
    },
    spec: { size: extra.size ?? version },
  }
}

export function bookmark(version: number, endsInitialEvents = false) {
  return {
    type: 'BOOKMARK',
    object: {
      apiVersion: Gadget.apiVersion,
      kind: Gadget.kind,
      metadata: {
        version: String(version),
        resourceVersion: String(version),
        ...(endsInitialEvents && { annotations: { [initialEventsEndAnnotation]: 'true' } }),
      },
    },
  }
}
