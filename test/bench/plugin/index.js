import { defineModel, definePlugin, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime'

/** An ordinary kind with three declared indexes. */
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
      properties: {
        text: { type: 'string', maxLength: 4096 },
        n: { type: 'integer', minimum: 0 },
        tags: { type: 'array', items: { type: 'string' } },
        sentAt: { type: 'string' },
      },
    },
  },
  indexes: [
    singleValueIndex({ name: 'spec.n', indexFunc: item => item.spec.n?.toString().padStart(8, '0') }),
    singleValueIndex({ name: 'spec.half', indexFunc: item => String((item.spec.n ?? 0) % 2) }),
    multiValueIndex({ name: 'spec.tags', indexFunc: item => item.spec.tags ?? [] }),
  ],
  printerColumns: [
    { name: 'N', type: 'integer', jsonPath: '.spec.n' },
    { name: 'Tag', type: 'string', jsonPath: '.spec.tags[0]' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})

export default definePlugin({ name: 'bench', models: [Item] })
