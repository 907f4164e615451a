import { afterEach, describe, expect, test } from 'vitest'
import { type Harness, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget, Part } from '../../../test/support/sdk/sample-models.ts'
import { ControllerBuilder } from './builder.ts'
import { and, not } from './predicates.ts'
import type { Finalize, Reconcile } from './reconcile.ts'
import type { ReconcileReport } from './results.ts'

const finalizer = 'demo.example.com/cleanup'

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

/** Returns a function that TypeScript does not allow: one that returns any value. */
const returning = (value: unknown) => () => JSON.parse(JSON.stringify(value ?? null))

describe('a result of reconcile', () => {
  async function reportFor(reconcile: () => unknown): Promise<ReconcileReport | undefined> {
    const harness = startHarness(Gadget, c => Reflect.apply(c.reconcile, c, [reconcile]))
    harnesses.push(harness)
    const results = harness.controller.results()
    await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    return (await results.next()).value
  }

  test.each<[unknown, string]>([
    ['done', 'reconcile must return { requeueAfterMs } or nothing, returned a string'],
    ['', 'returned a string'],
    [60_000, 'returned the number 60000'],
    [true, 'returned the boolean true'],
    [false, 'returned the boolean false'],
    [[], 'returned an array'],
    [{ requeueAfter: 60 }, 'unknown key requeueAfter in the result, did you mean requeueAfterMs?'],
    [{ requeueAfterMs: 1, requeue: true }, 'unknown key requeue in the result'],
    [{ kind: 'Gadget', metadata: { name: 'a' } }, 'or nothing, returned an object with kind, metadata'],
    [{ requeueAfterMs: '60' }, 'requeueAfterMs must be a number of at least 0, is the string "60"'],
    [{ requeueAfterMs: -1 }, 'requeueAfterMs must be a number of at least 0, is -1'],
  ])('%j fails the run, with what is accepted', async (value, message) => {
    const report = await reportFor(returning(value))
    expect(report).toMatchObject({ outcome: 'error', error: expect.any(TypeError) })
    expect(String(report?.error)).toContain(message)
  })

  test('a function or a symbol fails the run', async () => {
    expect(String((await reportFor(() => () => {}))?.error)).toContain('returned a function')
    expect(String((await reportFor(() => Symbol('x')))?.error)).toContain('returned the symbol Symbol(x)')
  })

  test.each([undefined, null, {}, { requeueAfterMs: undefined }, { requeueAfterMs: 60_000 }])(
    '%j is a success',
    async value => {
      expect(await reportFor(() => value)).toMatchObject({ outcome: 'success' })
    },
  )

  test('other than the type does not compile', () => {
    // @ts-expect-error: the key is requeueAfterMs
    const misspelled: Reconcile<never> = async () => ({ requeueAfter: 60 })
    // @ts-expect-error: a string is no result
    const text: Reconcile<never> = async () => 'done'
    // @ts-expect-error: finalize returns nothing
    const again: Finalize<never> = async () => ({ requeueAfterMs: 60 })
    expect([misspelled, text, again]).toHaveLength(3)
  })
})

test.each<[unknown, string]>([
  [{ requeueAfterMs: 5_000 }, 'finalize must return nothing, returned an object with requeueAfterMs'],
  ['done', 'returned a string'],
  [true, 'returned the boolean true'],
])(
  'finalize that returns %j keeps the finalizer, and the error says how to run again',
  async (value, message) => {
    const harness = startHarness(Gadget, c => Reflect.apply(c.finalize, c, [finalizer, returning(value)]))
    harnesses.push(harness)
    const { client, controller } = harness
    await client.create(Gadget, { metadata: { name: 'a', finalizers: [finalizer] }, spec: { size: 1 } })
    await eventually(() => controller.counts.succeeded > 0)
    const results = controller.results()
    await client.delete(Gadget, 'a')
    const { value: report } = await results.next()
    expect(report).toMatchObject({ outcome: 'error', error: expect.any(TypeError) })
    expect(String(report.error)).toContain(message)
    expect(String(report.error)).toContain('to keep the finalizer and run again, throw an error')
    expect((await client.get(Gadget, 'a')).metadata.finalizers).toEqual([finalizer])
  },
)

describe('an option of a controller', () => {
  const builder = () => new ControllerBuilder(Gadget)
  /** Calls a method with arguments that its type does not allow. */
  const call = (method: 'owns' | 'watches' | 'reads' | 'retry' | 'filter', ...args: unknown[]) =>
    Reflect.apply(Reflect.get(builder(), method), builder(), args)

  test.each<[string, () => unknown, string]>([
    [
      'owns',
      () => call('owns', Part, { labelSelectors: 'a=b' }),
      'unknown key labelSelectors in owns of Part, did you mean labelSelector?',
    ],
    ['owns', () => call('owns', Part, { matchAnyOwner: true }), 'did you mean matchEveryOwner?'],
    [
      'watches',
      () => call('watches', Part, () => 'a', { filters: () => true }),
      'unknown key filters in watches of Part, did you mean filter?',
    ],
    ['watches', () => call('watches', Part, () => 'a', { matchEveryOwner: true }), 'valid keys are'],
    ['reads', () => call('reads', Part, { filter: () => true }), 'unknown key filter in reads of Part'],
    [
      'retry',
      () => call('retry', { maxAttempt: 3 }),
      'unknown key maxAttempt in retry, did you mean maxAttempts?',
    ],
    [
      'retry',
      () => call('retry', { rate: { perSecond: 1, bursts: 2 } }),
      'unknown key bursts in rate of retry, did you mean burst?',
    ],
  ])('of %s that is unknown is rejected with the reason', (_, declare, message) => {
    expect(declare).toThrow(TypeError)
    expect(declare).toThrow(message)
  })

  test('an unknown method of a filter is rejected, also inside and, or and not', () => {
    const filter: object = { updated: () => false }
    const message = 'unknown key updated in filter, did you mean update?'
    expect(() =>
      builder()
        .filter(filter)
        .reconcile(() => {})
        .build(),
    ).toThrow(message)
    expect(() => and(filter)).toThrow(message)
    expect(() => not(filter)).toThrow(message)
    expect(() => call('watches', Part, () => 'a', { filter })).toThrow(message)
  })

  test('a filter of a class may have fields of its own', () => {
    class Counting {
      seen = 0
      update() {
        this.seen++
        return true
      }
    }
    expect(() =>
      builder()
        .filter(new Counting())
        .reconcile(() => {})
        .build(),
    ).not.toThrow()
  })
})
