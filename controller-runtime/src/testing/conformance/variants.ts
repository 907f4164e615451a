import type { ApiObject } from '../../api/object.ts'
import { type ConformanceError, failed } from './conformance-error.ts'
import { type Baseline, BaselineError, type BaselineName, type Lifecycles } from './lifecycles.ts'
import { conformanceDefaults } from './reconciler-under-test.ts'
import { OverdueError, Scenario } from './scenario.ts'

/** One disturbed lifecycle. */
export interface Variant<T extends ApiObject, Outside> {
  /** Starts the sentence of a failure, for example "after a crash between creating a part and writing the status". */
  readonly after: string
  /** Follows "when", for example "it dies before call 2 (PATCH ...)". Undefined without a disturbance. */
  readonly when: string | undefined
  /** The lifecycle whose result is expected. */
  readonly baseline: BaselineName
  run(scenario: Scenario<T, Outside>, expected: Baseline): Promise<void>
}

/** A guarantee of every good reconciler. */
export interface Guarantee<T extends ApiObject, Outside> {
  /** A sentence that states it. */
  readonly name: string
  /** Returns the disturbed lifecycles that test it. @throws BaselineError */
  variants(): Promise<readonly Variant<T, Outside>[]>
}

/**
 * Runs all variants, some concurrently, each in a new scenario.
 * @throws ConformanceError of the first failed variant, in order
 * @throws OverdueError
 */
export async function runVariants<T extends ApiObject, Outside>(
  { name: guarantee, variants: list }: Guarantee<T, Outside>,
  lifecycles: Lifecycles<T, Outside>,
): Promise<void> {
  try {
    await runAll(guarantee, lifecycles, await list())
  } catch (error) {
    throw error instanceof BaselineError ? withoutDisturbance(guarantee, error) : error
  }
}

async function runAll<T extends ApiObject, Outside>(
  guarantee: string,
  lifecycles: Lifecycles<T, Outside>,
  variants: readonly Variant<T, Outside>[],
): Promise<void> {
  const failures = new Map<number, unknown>()
  const rest = variants.entries()
  const worker = async () => {
    for (const [at, variant] of rest) {
      try {
        await runOne(guarantee, lifecycles, variant)
      } catch (error) {
        failures.set(at, error)
      }
      if (failures.size > 0) return
    }
  }
  await Promise.all(Array.from({ length: conformanceDefaults.concurrency }, worker))
  if (failures.size > 0) throw failures.get(Math.min(...failures.keys()))
}

async function runOne<T extends ApiObject, Outside>(
  guarantee: string,
  lifecycles: Lifecycles<T, Outside>,
  variant: Variant<T, Outside>,
): Promise<void> {
  const expected = await lifecycles.baseline(variant.baseline)
  await using scenario = await Scenario.open(lifecycles.subject)
  try {
    await scenario.inTime(variant.run(scenario, expected))
  } catch (error) {
    if (error instanceof OverdueError) throw error
    const { after, when } = variant
    const failing = scenario.timeline.rows()
    throw failed({ guarantee, after, when, error, reference: expected.rows, failing })
  }
}

function withoutDisturbance(guarantee: string, { cause: error, rows }: BaselineError): ConformanceError {
  const after = 'without any disturbance'
  return failed({ guarantee, after, when: undefined, error, reference: rows, failing: [] })
}
