import { refuseUnknownKeys } from '../../api/known-keys.ts'
import type { ApiObject } from '../../api/object.ts'
import { refuseBuiltInKinds } from '../../kinds/served-by-every-server.ts'
import { crashCases } from './cases-crashes.ts'
import { deletionCases } from './cases-deletion.ts'
import { failedCallCases } from './cases-failed-calls.ts'
import { lifecycleCases } from './cases-lifecycle.ts'
import { stalenessCases } from './cases-staleness.ts'
import { writerCases } from './cases-writers.ts'
import { Lifecycles } from './lifecycles.ts'
import { conformanceDefaults, type ReconcilerUnderTest, subjectKeys } from './reconciler-under-test.ts'
import { runVariants } from './variants.ts'

/** `test` of vitest, node:test, or any function that takes a name and a function. */
export type RegisterTest = (name: string, run: () => Promise<void>, timeoutMs: number) => unknown

/**
 * Returns tests that one reconciler keeps the guarantees of every good reconciler. The suite runs it against a real
 * server, and at each of its calls kills its process, refuses the call, loses the response, deletes the object, or
 * writes to it. Each time the reconciler must reach the same state as without the disturbance, and clean up after
 * itself.
 *
 *     const gadgets = reconcilerConformance({
 *       model: Gadget,
 *       plugin: ({ outside }) => gadgetPlugin(outside),
 *       outside: () => new FakeCloud(),
 *       objects: () => [{ metadata: { name: 'a' }, spec: { size: 1 } }],
 *       changes: () => [{ spec: { size: 2 } }],
 *       isConverged: ({ object }) => object.status?.observedGeneration === object.metadata.generation,
 *       isCleanedUp: ({ outside, object }) => !outside.has(object.metadata.uid),
 *       world: ({ outside }) => outside.items(),
 *     })
 *     describe('the reconciler of gadgets', () => gadgets.register(test))
 *
 * The cases follow Sieve (Sun et al., OSDI 2022), which found 46 bugs in ten well-known controllers by crashes in
 * intermediate states, stale caches and unobserved states. The other cases cover failures of the API.
 *
 * Needs `@setpoint/apiserver`, as `startTestServer` does.
 *
 * @throws TypeError for an unknown option, and for `models` that every server has, such as `Secret`.
 */
export function reconcilerConformance<
  T extends ApiObject,
  Outside,
  // They keep the literals of functions without a parameter, such as those of an enum.
  const Objects = unknown,
  const Changes = unknown,
>(
  subject: ReconcilerUnderTest<T, Outside> & {
    readonly objects: (outside: Outside) => Objects
    readonly changes?: (outside: Outside) => Changes
  },
): ReconcilerConformance {
  refuseUnknownKeys(subject, subjectKeys, 'reconcilerConformance')
  refuseBuiltInKinds(subject.models ?? [], 'reconcilerConformance')
  const lifecycles = new Lifecycles(subject)
  const guarantees = [
    ...lifecycleCases(lifecycles),
    ...crashCases(lifecycles),
    ...failedCallCases(lifecycles),
    ...stalenessCases(lifecycles),
    ...deletionCases(lifecycles),
    ...writerCases(lifecycles),
  ]
  const cases = guarantees.map(guarantee => ({
    name: guarantee.name,
    run: () => runVariants(guarantee, lifecycles),
  }))
  return {
    cases,
    register(test) {
      for (const each of cases) test(each.name, () => each.run(), conformanceDefaults.testMs)
    },
  }
}

/** One guarantee, to be registered as a test. */
export interface ConformanceCase {
  /** A sentence that states the guarantee. */
  readonly name: string
  /**
   * @throws ConformanceError if the reconciler violates the guarantee
   * @throws OverdueError if a lifecycle took longer than `deadlineMs`, which says nothing about the reconciler
   */
  run(): Promise<void>
}

/** The cases of the suite, for any test runner. */
export interface ReconcilerConformance {
  /** Each may be run on its own, and more than once. */
  readonly cases: readonly ConformanceCase[]
  /** Registers each case as a test. */
  register(test: RegisterTest): void
}
