import { defineModel, definePlugin, singleValueIndex } from '@setpoint/controller-runtime'

/** About 300 bytes of content and one declared index: an ordinary small kind. */
export const Item = defineModel({
  group: 'bench.example.com',
  version: 'v1',
  kind: 'Item',
  singular: 'item',
  plural: 'items',
  schema: {
    spec: {
      type: 'object',
      required: ['text'],
      properties: { text: { type: 'string', maxLength: 4096 }, n: { type: 'integer', minimum: 0 } },
    },
  },
  indexes: [singleValueIndex({ name: 'spec.n', indexFunc: item => item.spec.n?.toString() })],
})

export default definePlugin({ name: 'bench', models: [Item] })
