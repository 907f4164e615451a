import { describe, expect, test } from 'vitest'
import {
  type Change,
  changed,
  definitionWith,
  refusals,
  refusalsOfChange,
  stored,
  withAnnotations,
  withField,
  withRoot,
  withSecond,
  withSpec,
  withVersion,
} from '../../../testing/test-definition.ts'
import { turnDefaults } from '../../turns.ts'
import { inspectDefinition } from './validate.ts'

describe('values of other types than Kubernetes has', () => {
  test.each<[string, Change, string[]]>([
    ['are refused at their places', withSpec({ group: 1 }), ['TypeInvalid spec.group']],
    ['are refused in lists', withVersion({ name: 1 }), ['TypeInvalid spec.versions[0].name']],
    [
      'are refused in schemas',
      withField({ type: 1 }),
      ['TypeInvalid spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.field.type'],
    ],
  ])('%s', async (_what, change, causes) => {
    expect(await refusals(definitionWith(change))).toEqual(causes)
  })

  test('are the only causes', async () => {
    expect(await refusals(definitionWith(withSpec({ scope: 'Galaxy', group: [] })))).toEqual([
      'TypeInvalid spec.group',
    ])
  })
})

describe('a change', () => {
  const broken = { type: 'string', uniqueItems: true }

  test('of a definition that Kubernetes would refuse today is accepted if the schema stays', async () => {
    const previous = stored(definitionWith(withField(broken)))
    const next = definitionWith(withField(broken), withAnnotations({ a: 'b' }))
    expect(await refusalsOfChange(previous, next)).toEqual([])
  })

  test('of one schema checks that one only', async () => {
    const previous = stored(definitionWith(withField(broken), withSecond()))
    const second = { openAPIV3Schema: { type: 'object', properties: { a: {} } } }
    const next = definitionWith(withField(broken), withSecond({ schema: second }))
    expect(await refusalsOfChange(previous, next)).toEqual([
      'Required spec.versions[1].schema.openAPIV3Schema.properties[a].type',
    ])
  })

  test('of a schema without types needs them', async () => {
    const untyped = stored(definitionWith(withField({ description: 'x' })))
    const next = definitionWith(withField({ description: 'y' }))
    expect(await refusalsOfChange(untyped, next)).toEqual([
      'Required spec.validation.openAPIV3Schema.properties[spec].properties[field].type',
    ])
  })

  test('to a status of its own checks the schema again', async () => {
    const previous = stored(definitionWith(withRoot({ minProperties: 1 })))
    const next = definitionWith(withRoot({ minProperties: 1 }), withVersion({ subresources: { status: {} } }))
    expect(await refusalsOfChange(previous, next)).toEqual(['Invalid spec.validation.openAPIV3Schema'])
  })

  test('of the status checks nothing else', async () => {
    const previous = stored(definitionWith(withField(broken)))
    expect(await refusalsOfChange(previous, definitionWith(withField(broken)), 'status')).toEqual([])
  })
})

describe('a large schema', () => {
  const property = (n: number) => ({
    type: 'object',
    description: 'x'.repeat(80),
    properties: { [`a${n}`]: { type: 'string', default: 'a', pattern: `^[a-z]{1,${(n % 9) + 1}}` } },
  })
  const properties = Object.fromEntries(
    Array.from({ length: 5000 }, (_, n) => [`property-${n}`, property(n)]),
  )
  const large = stored(definitionWith(withField({ type: 'object', properties })))

  test('is checked in turns of the event loop', async () => {
    let turns = 0
    let isDone = false
    const count = () => {
      turns++
      if (!isDone) setImmediate(count)
    }
    setImmediate(count)
    // Each look at the clock is a millisecond later.
    let now = 0
    const clock = { now: () => now++, monotonic: () => now++ }
    expect(await inspectDefinition(large, undefined, 'object', Object(clock))).toEqual([])
    isDone = true
    expect(now).toBeGreaterThan(5000)
    expect(turns).toBeGreaterThan(now / (2 * turnDefaults.turnMs + 4))
  })

  test('that stays is not checked again', async () => {
    let looks = 0
    const clock = { monotonic: () => looks++ }
    const next = changed(
      large,
      definitionWith(withField({ type: 'object', properties }), withAnnotations({ a: 'b' })),
    )
    expect(await inspectDefinition(next, large, 'object', Object(clock))).toEqual([])
    expect(looks).toBeLessThan(20)
  })

  test('with many faults has as many causes as a response may have', async () => {
    const faults = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`p${n}`, {}]))
    const violations = await inspectDefinition(
      stored(definitionWith(withField({ type: 'object', properties: faults }))),
      undefined,
      'object',
    )
    expect(violations.length).toBe(1000)
  })
})
