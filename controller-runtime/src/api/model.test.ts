import { describe, expect, expectTypeOf, test } from 'vitest'
import { defaultIndexNames } from './default-indexes.ts'
import { IndexValueError, multiValueIndex, singleValueIndex } from './index-spec.ts'
import { defineModel, type Model, ModelError, type ObjectOf } from './model.ts'

const gadget = {
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Gadget',
  singular: 'gadget',
  plural: 'gadgets',
  schema: { spec: { type: 'object', properties: { n: { type: 'integer' } } } },
} as const

const undefinedValue = () => undefined

/** Declares a model with properties that the types do not allow. */
function declare(changes: Record<string, unknown>): Model {
  return Reflect.apply(defineModel, undefined, [{ ...gadget, ...changes }])
}

describe('a model', () => {
  test('has defaults for omitted properties', () => {
    const model = defineModel(gadget)
    expect(model).toMatchObject({ apiVersion: 'demo.example.com/v1', subresources: { status: false } })
    expect([model.indexes, model.printerColumns]).toEqual([[], []])
    expect(Object.isFrozen(model)).toBe(true)
  })

  test('types the objects of its index functions by its schema, with and without a status', () => {
    type Spec = { email: string; n?: number; tags?: string[] }
    const schema = {
      spec: {
        type: 'object',
        required: ['email'],
        properties: {
          email: { type: 'string' },
          n: { type: 'integer' },
          tags: { type: 'array', items: { type: 'string' } },
        },
      },
    } as const
    const model = defineModel({
      ...gadget,
      schema,
      indexes: [
        singleValueIndex({
          name: 'spec.email',
          indexFunc: object => {
            expectTypeOf(object.spec).toEqualTypeOf<Spec>()
            expectTypeOf(object.status).toEqualTypeOf<Record<string, unknown> | undefined>()
            return object.spec.email
          },
        }),
        multiValueIndex({ name: 'spec.tags', indexFunc: ({ spec }) => spec.tags ?? [] }),
        // @ts-expect-error: the schema has no such field
        singleValueIndex({ name: 'spec.mail', indexFunc: object => object.spec.mail }),
        // @ts-expect-error: an index value is a string
        singleValueIndex({ name: 'spec.n', indexFunc: object => object.spec.n }),
      ],
    })
    expectTypeOf<ObjectOf<typeof model>['spec']>().toEqualTypeOf<Spec>()
    const withStatus = defineModel({
      ...gadget,
      schema: { ...schema, status: { type: 'object', properties: { phase: { type: 'string' } } } },
      indexes: [
        singleValueIndex({
          name: 'status.phase',
          indexFunc: object => {
            expectTypeOf(object.spec).toEqualTypeOf<Spec>()
            return object.status?.phase
          },
        }),
      ],
    })
    expectTypeOf<ObjectOf<typeof withStatus>['status']>().toEqualTypeOf<{ phase?: string } | undefined>()
  })

  test('accepts the indexes of another model', () => {
    const indexed = defineModel({
      ...gadget,
      indexes: [singleValueIndex({ name: 'spec.n', indexFunc: undefinedValue })],
    })
    expect(defineModel({ ...gadget, plural: 'others', indexes: indexed.indexes }).indexes).toEqual(
      indexed.indexes,
    )
  })

  test('has its declared indexes', () => {
    const model = defineModel({
      ...gadget,
      indexes: [
        singleValueIndex({
          name: 'spec.n',
          unique: true,
          version: 3,
          indexFunc: ({ spec }) => spec.n?.toString(),
        }),
        multiValueIndex({ name: 'spec.tags', order: 'DESC', indexFunc: () => [] }),
      ],
    })
    expect(
      model.indexes.map(({ name, order, unique, version, multiple }) => [
        name,
        order,
        unique,
        version,
        multiple,
      ]),
    ).toEqual([
      ['spec.n', 'ASC', true, 3, false],
      ['spec.tags', 'DESC', false, 1, true],
    ])
  })

  test.each<[string, Record<string, unknown>, string]>([
    ['a group with capitals', { group: 'Demo' }, 'group must be a DNS sub-domain'],
    ['no group', { group: undefined }, 'group must be a string'],
    ['a version with a dot', { version: 'v1.2' }, 'version must consist of'],
    ['a kind in lower case', { kind: 'gadget' }, 'kind must be CamelCase'],
    ['a singular with capitals', { singular: 'Gadget' }, 'singular must consist of'],
    ['a plural with a slash', { plural: 'gad/gets' }, 'plural must consist of'],
    ['a number for a plural', { plural: 7 }, 'plural must be a string'],
    ['no schema', { schema: undefined }, 'schema.spec must be'],
    ['no schema of spec', { schema: {} }, 'schema.spec must be'],
    ['an index not made by a factory', { indexes: [{ name: 'x' }] }, 'indexes must be made by'],
    ['no index at all', { indexes: [undefined] }, 'indexes must be made by'],
    ['a function for an index', { indexes: [undefinedValue] }, 'indexes must be made by'],
    ['an object for its indexes', { indexes: { name: 'x' } }, 'indexes must be an array'],
    [
      'an index without a name',
      { indexes: [Reflect.apply(singleValueIndex, undefined, [{ indexFunc: undefinedValue }])] },
      'every index must have a name',
    ],
    [
      'an index name with a comma',
      { indexes: [singleValueIndex({ name: 'a,b', indexFunc: undefinedValue })] },
      'index name "a,b" must consist of',
    ],
    [
      'two indexes of one name',
      { indexes: ['a', 'a'].map(name => singleValueIndex({ name, indexFunc: undefinedValue })) },
      'index name "a" is already in use',
    ],
    ...defaultIndexNames.map((name): [string, Record<string, unknown>, string] => [
      `an index named ${name}`,
      { indexes: [singleValueIndex({ name, indexFunc: undefinedValue })] },
      'is already in use, or is the name of a default index',
    ]),
    [
      'an unknown order',
      {
        indexes: [
          Reflect.apply(singleValueIndex, undefined, [
            { name: 'a', order: 'asc', indexFunc: undefinedValue },
          ]),
        ],
      },
      'index a: order must be ASC or DESC',
    ],
    [
      'an index version of 0',
      { indexes: [singleValueIndex({ name: 'a', version: 0, indexFunc: undefinedValue })] },
      'index a: version must be an integer from 1',
    ],
    [
      'a text for unique',
      {
        indexes: [
          Reflect.apply(singleValueIndex, undefined, [
            { name: 'a', unique: 'no', indexFunc: undefinedValue },
          ]),
        ],
      },
      'index a: unique must be true or false',
    ],
    ['a short name in capitals', { shortNames: ['GD'] }, 'shortNames must be an array of names'],
    ['one category', { categories: 'all' }, 'categories must be an array of names'],
    ['an unknown scope', { scope: 'Global' }, "scope must be 'Cluster' or 'Namespaced'"],
    ['a text for sensitive', { sensitive: 'yes' }, 'sensitive must be true or false'],
    ['a text for prune', { prune: 'yes' }, 'prune must be true or false'],
    ['the plural of namespaces', { plural: 'namespaces' }, 'which is reserved for paths'],
    ['a misspelled key', { indexs: [] }, 'unknown key indexs in defineModel, did you mean indexes?'],
    ['an unknown key', { uid: 'x' }, 'unknown key uid in defineModel, valid keys are group, version, kind'],
    [
      'a misspelled part of its schema',
      { schema: { spec: {}, staus: {} } },
      'unknown key staus in schema, did you mean status?',
    ],
    [
      'a misspelled subresource',
      { subresources: { state: true } },
      'unknown key state in subresources, did you mean status?',
    ],
    ['a list of subresources', { subresources: ['status'] }, 'subresources must be an object such as'],
    [
      'an object for the status',
      { subresources: { status: {} } },
      'subresources.status must be true or false',
    ],
    [
      'a misspelled key of a column',
      { printerColumns: [{ name: 'N', type: 'integer', jsonPath: '.spec.n', JSONPath: '.spec.n' }] },
      'unknown key JSONPath in printerColumns[0], did you mean jsonPath?',
    ],
    [
      'a column of an unknown type',
      { printerColumns: [{ name: 'N', type: 'int', jsonPath: '.spec.n' }] },
      'printerColumns[0].type must be one of string, integer',
    ],
    [
      'a column without a path',
      { printerColumns: [{ name: 'N', type: 'integer' }] },
      'printerColumns[0].jsonPath must be a path such as .spec.email',
    ],
    [
      'a column without a name',
      { printerColumns: [{ type: 'integer', jsonPath: '.spec.n' }] },
      '[0].name must',
    ],
    ['a text for a column', { printerColumns: ['.spec.n'] }, 'printerColumns[0] must be an object'],
    ['an object for its columns', { printerColumns: {} }, 'printerColumns must be an array'],
    [
      'a path that does not compile',
      { printerColumns: [{ name: 'N', type: 'integer', jsonPath: '.spec..n' }] },
      'printerColumns[0].jsonPath ".spec..n" must be a path such as .spec.email: recursive descent',
    ],
    [
      'a column of an unknown format',
      { printerColumns: [{ name: 'N', type: 'integer', jsonPath: '.spec.n', format: 'int' }] },
      'printerColumns[0].format must be one of binary, bool',
    ],
    [
      'a text for a priority',
      { printerColumns: [{ name: 'N', type: 'integer', jsonPath: '.spec.n', priority: '1' }] },
      'printerColumns[0].priority must be an integer',
    ],
    ['an unknown rule for names', { names: 'dns' }, "names must be 'dns-label' or 'dns-subdomain'"],
  ])('with %s is rejected with the reason', (_, changes, message) => {
    expect(() => declare(changes)).toThrow(ModelError)
    expect(() => declare(changes)).toThrow(message)
  })

  test('has all its problems listed at once', () => {
    expect(() => declare({ group: 'A', version: 'B', kind: 'c', plural: 'D' })).toThrow(
      /group .*; version .*; kind .*; plural /,
    )
  })

  test.each([undefined, null, 'Gadget', [gadget]])('is not declared by %j', declaration => {
    expect(() => Reflect.apply(defineModel, undefined, [declaration])).toThrow(
      'defineModel must be given an object',
    )
  })

  test('with a misspelled key does not compile', () => {
    // @ts-expect-error: the key is indexes
    expect(() => defineModel({ ...gadget, indexs: [] })).toThrow(ModelError)
    // @ts-expect-error: the key is unique
    expect(() => singleValueIndex({ name: 'a', uniqe: true, indexFunc: undefinedValue })).toThrow(TypeError)
  })

  test('may limit a unique index to each namespace, if its kind is namespaced', () => {
    const index = (more: object) => [
      singleValueIndex({ name: 'a', indexFunc: undefinedValue, uniqueWithin: 'namespace', ...more }),
    ]
    const model = declare({ scope: 'Namespaced', indexes: index({ unique: true }) })
    expect(model.indexes.map(({ uniqueWithin }) => uniqueWithin)).toEqual(['namespace'])
    expect(() => declare({ indexes: index({ unique: true }) })).toThrow(
      "uniqueWithin needs scope: 'Namespaced'",
    )
    expect(() => declare({ scope: 'Namespaced', indexes: index({}) })).toThrow(
      'uniqueWithin needs unique: true',
    )
    const named = [singleValueIndex({ name: 'metadata.namespace', indexFunc: undefinedValue })]
    expect(() => declare({ scope: 'Namespaced', indexes: named })).toThrow('is already in use')
  })

  test('that is sensitive must limit a unique index to each namespace, if its kind is namespaced', () => {
    const index = (more: object = {}) => [
      singleValueIndex({ name: 'a', indexFunc: undefinedValue, unique: true, ...more }),
    ]
    const scope = 'Namespaced'
    expect(() => declare({ scope, sensitive: true, indexes: index() })).toThrow("uniqueWithin: 'namespace'")
    declare({ scope, sensitive: true, indexes: index({ uniqueWithin: 'namespace' }) })
    declare({ scope, indexes: index() })
    declare({ sensitive: true, indexes: index() })
  })

  test.each([
    ['default', async () => {}],
    ['validate', async () => []],
    [
      'validate',
      function* () {
        yield { field: 'spec.n', message: 'is odd' }
      },
    ],
  ])('with the hook %s that does not return its result at once is refused', (hook, given) => {
    expect(() => Reflect.apply(declare, undefined, [{ [hook]: given }])).toThrow(
      `${hook} must be synchronous: neither async nor a generator`,
    )
  })

  test('may have the empty group, which is reserved for the server', () => {
    expect(declare({ group: '' }).apiVersion).toBe('v1')
  })
})

describe('an index', () => {
  const answering = (value: unknown) => ({ name: 'a', indexFunc: () => JSON.parse(JSON.stringify(value)) })

  test('of one value accepts a string, also an empty one, or undefined for no value', () => {
    expect(singleValueIndex({ name: 'a', indexFunc: () => '' })().valuesOf(Object.create(null))).toEqual([''])
    expect(
      singleValueIndex({ name: 'a', indexFunc: undefinedValue })().valuesOf(Object.create(null)),
    ).toEqual([])
  })

  test.each([undefined, null, 7, 'spec.n'])(
    'without a function, but %j, is rejected and named',
    indexFunc => {
      for (const factory of [singleValueIndex, multiValueIndex]) {
        expect(() => Reflect.apply(factory, undefined, [{ name: 'spec.n', indexFunc }])).toThrow(
          'index spec.n: indexFunc must be a function',
        )
      }
    },
  )

  test('with an async function is rejected and named', () => {
    for (const factory of [singleValueIndex, multiValueIndex]) {
      expect(() =>
        Reflect.apply(factory, undefined, [{ name: 'spec.n', indexFunc: async () => 'a' }]),
      ).toThrow('index spec.n: indexFunc must be synchronous')
    }
  })

  test.each([
    ['uniqe', 'did you mean unique?'],
    ['indexFn', 'did you mean indexFunc?'],
    ['multiple', 'valid keys are name, order, unique, uniqueWithin, version, indexFunc'],
  ])('with the unknown key %s is rejected', (key, advice) => {
    for (const factory of [singleValueIndex, multiValueIndex]) {
      expect(() =>
        Reflect.apply(factory, undefined, [{ name: 'spec.n', indexFunc: undefinedValue, [key]: true }]),
      ).toThrow(`unknown key ${key} in ${factory.name} of the index spec.n, ${advice}`)
    }
  })

  test.each([undefined, null, 'spec.n', []])('is not declared by %j', options => {
    expect(() => Reflect.apply(multiValueIndex, undefined, [options])).toThrow(
      'multiValueIndex must be given an object',
    )
  })

  test.each([null, 7, true, [], ['a'], {}])('of one value rejects %j', value => {
    const index = singleValueIndex(answering(value))()
    expect(() => index.valuesOf(Object.create(null))).toThrow(IndexValueError)
  })

  test('of several values has each of them once', () => {
    const index = multiValueIndex({ name: 'a', indexFunc: () => ['b', 'a', 'b', ''] })()
    expect(index.valuesOf(Object.create(null))).toEqual(['b', 'a', ''])
  })

  test.each([null, 7, 'a', {}, [1], ['a', null], [['a']]])('of several values rejects %j', value => {
    const index = multiValueIndex(answering(value))()
    expect(() => index.valuesOf(Object.create(null))).toThrow(IndexValueError)
  })

  test('throws the error of its function', () => {
    const failure = new Error('no spec')
    const index = singleValueIndex({
      name: 'a',
      indexFunc: () => {
        throw failure
      },
    })()
    expect(() => index.valuesOf(Object.create(null))).toThrow(failure)
  })
})
