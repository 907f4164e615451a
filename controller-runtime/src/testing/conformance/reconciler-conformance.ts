import type { ApiObject } from '../../api/object.ts'
import { answerCases } from './cases-answers.ts'
import { crashCases } from './cases-crashes.ts'
import { deletionCases } from './cases-deletion.ts'
import { lifeCases } from './cases-life.ts'
import { stalenessCases } from './cases-staleness.ts'
import { writerCases } from './cases-writers.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { Lives } from './lives.ts'
import type { ReconcilerUnderTest } from './reconciler-under-test.ts'

/** `test` of vitest, of node:test, or of anything else that takes a name and a function. */
export type RegisterTest = (name: string, run: () => Promise<void>, timeoutMs: number) => unknown

/** What a test of one case may take, in ms: it lives dozens of lives. */
const caseTimeoutMs = 600_000

/**
 * What every reconciler should stand, as tests for one of them: it is run against a real server, and at every call that
 * it makes the suite lets its process die, refuses the call, loses the answer, deletes the object, or writes to it. Each
 * time it must come to the same state as in a life in which nothing happened, and clean up after itself.
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
 * The cases follow Sieve (Sun et al., OSDI 2022), which found 46 faults in ten well-known controllers by crashes in
 * intermediate states, by stale caches and by unobserved states; the others are what its authors left to the API.
 *
 * Needs `@setpoint/apiserver`, as `startTestServer` does.
 */
export function reconcilerConformance<T extends ApiObject, Outside>(
  subject: ReconcilerUnderTest<T, Outside>,
): ReconcilerConformance {
  const lives = new Lives(subject)
  const cases = [
    ...lifeCases(lives),
    ...crashCases(lives),
    ...answerCases(lives),
    ...stalenessCases(lives),
    ...deletionCases(lives),
    ...writerCases(lives),
  ]
  return {
    cases,
    register(test) {
      for (const each of cases) test(each.name, () => each.run(), caseTimeoutMs)
    },
  }
}

/** The cases of the suite, to be run by any test runner or by hand. */
export interface ReconcilerConformance {
  /** Each may be run by itself, and more than once. */
  readonly cases: readonly ConformanceCase[]
  /** Registers each case as a test of its name. */
  register(test: RegisterTest): void
}
