import { defineModel } from '@setpoint/controller-runtime'

/** Kinds to subscribe to. */
export const Item = defineModel({
  group: 'items.example.com',
  version: 'v1',
  kind: 'Item',
  singular: 'item',
  plural: 'items',
  schema: { spec: { type: 'object', properties: { n: { type: 'integer' } } } },
})

export const Desk = defineModel({
  group: 'items.example.com',
  version: 'v1',
  kind: 'Desk',
  singular: 'desk',
  plural: 'desks',
  scope: 'Namespaced',
  schema: { spec: { type: 'object', properties: { n: { type: 'integer' } } } },
})
