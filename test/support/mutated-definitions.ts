import fc from 'fast-check'
import { type Fields, isFields } from './json.ts'

/** A definition with most of what one can have. Random changes of it are near to what is valid. */
export const richDefinition: Fields = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: 'riches.mutated.example.com',
    annotations: { 'setpoint.dev/indexes': '[{"path":".spec.size","unique":true}]' },
  },
  spec: {
    group: 'mutated.example.com',
    scope: 'Namespaced',
    names: { plural: 'riches', singular: 'rich', kind: 'Rich', shortNames: ['rc'], categories: ['all'] },
    conversion: { strategy: 'None' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            required: ['spec'],
            properties: {
              spec: {
                type: 'object',
                default: { size: 3 },
                properties: {
                  size: { type: 'integer', format: 'int32', minimum: 1, maximum: 9, default: 2 },
                  color: { type: 'string', enum: ['red', 'green'], maxLength: 10, pattern: '^[a-z]+$' },
                  port: { 'x-kubernetes-int-or-string': true, default: 80 },
                  labels: { type: 'object', maxProperties: 3, additionalProperties: { type: 'string' } },
                  hosts: {
                    type: 'array',
                    maxItems: 4,
                    items: {
                      type: 'object',
                      required: ['name'],
                      properties: { name: { type: 'string' }, weight: { type: 'integer', default: 1 } },
                      'x-kubernetes-validations': [{ rule: 'self.weight >= oldSelf.weight' }],
                    },
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name'],
                  },
                  pod: {
                    type: 'object',
                    'x-kubernetes-embedded-resource': true,
                    'x-kubernetes-preserve-unknown-fields': true,
                  },
                },
                anyOf: [{ required: ['size'] }, { not: { properties: { color: { minLength: 2 } } } }],
                'x-kubernetes-validations': [
                  {
                    rule: 'self.size > 1 || has(self.color)',
                    messageExpression: '"size is " + string(self.size)',
                    reason: 'FieldValueInvalid',
                    fieldPath: '.size',
                  },
                ],
              },
              status: { type: 'object', properties: { size: { type: 'integer' } } },
            },
          },
        },
        subresources: {
          status: {},
          scale: { specReplicasPath: '.spec.size', statusReplicasPath: '.status.size' },
        },
        selectableFields: [{ jsonPath: '.spec.color' }],
        additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size', priority: 1 }],
      },
    ],
  },
}

const keywords = [
  ...[
    'type',
    'format',
    'default',
    'enum',
    'nullable',
    'properties',
    'additionalProperties',
    'items',
    'required',
  ],
  ...[
    'allOf',
    'anyOf',
    'oneOf',
    'not',
    '$ref',
    'pattern',
    'minLength',
    'maxItems',
    'uniqueItems',
    'multipleOf',
  ],
  ...['exclusiveMaximum', 'x-kubernetes-preserve-unknown-fields', 'x-kubernetes-embedded-resource'],
  ...['x-kubernetes-int-or-string', 'x-kubernetes-list-type', 'x-kubernetes-list-map-keys'],
  ...[
    'x-kubernetes-map-type',
    'x-kubernetes-validations',
    'definitions',
    'patternProperties',
    'dependencies',
  ],
  ...['rule', 'fieldPath', 'optionalOldSelf', 'jsonPath', 'webhook', 'preserveUnknownFields', 'storage'],
  ...['__proto__', 'constructor', 'toString', ''],
]

const values: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    1,
    -1,
    1.5,
    1e21,
    '',
    ' ',
    '.',
    '(',
    'string',
    'object',
    'array',
    'integer',
    'map',
    'set',
  ],
  ...[
    'atomic',
    'Webhook',
    'v1',
    'v2',
    'self',
    'oldSelf == self',
    "self.metadata.name == 'a'",
    '.spec.color',
    "['a'",
  ],
  ...['a'.repeat(300), '\u0000', '\ud800', '9223372036854775808', '[{"path":1}]', '[', '{"a":{"b":[]}}'],
  ...[
    [],
    [null],
    [[]],
    ['a'],
    ['name', 'name'],
    [{ type: 'string' }],
    [{ rule: 'true' }],
    [{ jsonPath: '.spec.size' }],
  ],
  ...[{}, { a: null }, { type: 'string' }, { type: 'string', default: 1 }, { a: { type: 'object' } }],
  ...[
    { type: 'object', properties: { a: { type: 'string' } } },
    { strategy: 'Webhook', webhook: {} },
  ],
]

/** One random change: where, as a number that chooses a place; what; and with which values. */
const change = fc.record({
  within: fc.constantFrom('schema', 'schema', 'schema', 'definition'),
  place: fc.nat(),
  what: fc.constantFrom('replace', 'remove', 'add', 'copy', 'wrap'),
  keyword: fc.constantFrom(...keywords),
  value: fc.constantFrom(...values),
  other: fc.nat(),
})

type Change = Parameters<Parameters<typeof change.map>[0]>[0]

/** Definitions that one to three random changes make of `richDefinition`, most of them malformed. */
export const mutatedDefinitions: fc.Arbitrary<Fields> = fc
  .array(change, { minLength: 1, maxLength: 3 })
  .map(changes => changes.reduce(changed, structuredClone(richDefinition)))

function changed(definition: Fields, { within, place, what, keyword, value, other }: Change): Fields {
  const slots = slotsIn(within === 'schema' ? schemaIn(definition) : definition)
  const slot = slots[place % slots.length]
  const source = slots[other % slots.length]
  if (slot === undefined || source === undefined) return definition
  const { parent, key } = slot
  const given = Reflect.get(parent, key)
  if (what === 'remove') Reflect.deleteProperty(parent, key)
  else if (what === 'add' && isFields(given)) define(given, keyword, structuredClone(value))
  else if (what === 'copy') define(parent, key, structuredClone(Reflect.get(source.parent, source.key)))
  else if (what === 'wrap') define(parent, key, { [keyword]: given })
  else define(parent, key, structuredClone(value))
  // Removed items of lists leave holes.
  return JSON.parse(JSON.stringify(definition))
}

/** Returns the first schema, or the whole definition if an earlier change took it away. */
function schemaIn(definition: Fields): object {
  const versions = isFields(definition.spec) ? definition.spec.versions : undefined
  const first: unknown = Array.isArray(versions) ? versions[0] : undefined
  return isFields(first) && isFields(first.schema) ? first.schema : definition
}

/** Also for `__proto__`. */
function define(parent: object, key: string, value: unknown): void {
  Object.defineProperty(parent, key, { value, enumerable: true, configurable: true, writable: true })
}

/** Returns all places of values below the spec, the annotations and the name. */
function slotsIn(value: object): { readonly parent: object; readonly key: string }[] {
  return Object.entries(value).flatMap(([key, below]) => [
    ...(key === 'apiVersion' || key === 'kind' || key === 'metadata' ? [] : [{ parent: value, key }]),
    ...(typeof below === 'object' && below !== null ? slotsIn(below) : []),
  ])
}
