import { defineModel, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime'

/** A page of a web site. The controller writes it to a file. */
export const Page = defineModel({
  group: 'plugin-name.example.com',
  version: 'v1',
  kind: 'Page',
  singular: 'page',
  plural: 'pages',
  // OpenAPI. The server validates every write against it.
  schema: {
    spec: {
      type: 'object',
      required: ['title'],
      properties: {
        title: { type: 'string', minLength: 1, maxLength: 100 },
        text: { type: 'string', default: '' },
        tags: { type: 'array', items: { type: 'string', minLength: 1 } },
      },
    },
    status: {
      type: 'object',
      properties: {
        file: { type: 'string' },
        observedGeneration: {
          type: 'integer',
          description: 'The metadata.generation that was last written.',
        },
      },
    },
  },
  // Users write `spec` and the controller writes `status`, and neither overwrites the other.
  subresources: { status: true },
  // Lists can be filtered and sorted by indexes only.
  indexes: [
    // Unique: the server refuses a second page with the same title.
    singleValueIndex({ name: 'spec.title', unique: true, indexFunc: page => page.spec.title }),
    // Several values: a page is found by each of its tags.
    multiValueIndex({ name: 'spec.tags', indexFunc: page => page.spec.tags ?? [] }),
  ],
})
