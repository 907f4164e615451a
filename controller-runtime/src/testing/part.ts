import { singleValueIndex } from '../api/index-spec.ts'
import { defineModel } from '../api/model.ts'

/** A dependent of gadgets in the SDK's own tests. */
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
