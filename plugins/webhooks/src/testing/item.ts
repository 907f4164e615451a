import { defineModel } from '@setpoint/controller-runtime'

/** A kind to subscribe to. */
export const Item = defineModel({
  group: 'items.example.com',
  version: 'v1',
  kind: 'Item',
  singular: 'item',
  plural: 'items',
  schema: { spec: { type: 'object', properties: { n: { type: 'integer' } } } },
})
