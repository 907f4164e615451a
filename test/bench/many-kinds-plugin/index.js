import { defineModel, definePlugin } from '@setpoint/controller-runtime'

/** 300 kinds in ten groups. */
const models = Array.from({ length: 300 }, (_, n) =>
  defineModel({
    group: `g${n % 10}.bench.example.com`,
    version: 'v1',
    kind: `Kind${n}`,
    singular: `kind${n}`,
    plural: `kinds${n}`,
    schema: { spec: { type: 'object', properties: { text: { type: 'string' } } } },
  }),
)

export default definePlugin({ name: 'many-kinds', models })
