import type { ApiObject } from '../../api/object.ts'
import { type ConformanceError, failed } from './conformance-error.ts'
import { Finding } from './finding.ts'
import { type Baseline, BaselineError, type BaselineName, type Lifecycles } from './lifecycles.ts'
import { conformanceDefaults } from './reconciler-under-test.ts'
import { Scenario } from './scenario.ts'

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
 * @throws ConformanceError of the first failed variant, in order, or when the deadline has passed.
 */
export async function runVariants<T extends ApiObject, Outside>(
  { name: guarantee, variants: list }: Guarantee<T, Outside>,
  lifecycles: Lifecycles<T, Outside>,
): Promise<void> {
  const { deadlineMs = conformanceDefaults.deadlineMs } = lifecycles.subject
  const running = new Map<Variant<T, Outside>, Scenario<T, Outside>>()
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(overdue(guarantee, deadlineMs, running)), deadlineMs)
  })
  try {
    const variants = await Promise.race([deadline, list()])
    await Promise.race([deadline, runAll(guarantee, lifecycles, variants, running)])
  } catch (error) {
    throw error instanceof BaselineError ? withoutDisturbance(guarantee, error) : error
  } finally {
    clearTimeout(timer)
  }
}

async function runAll<T extends ApiObject, Outside>(
  guarantee: string,
  lifecycles: Lifecycles<T, Outside>,
  variants: readonly Variant<T, Outside>[],
  running: Map<Variant<T, Outside>, Scenario<T, Outside>>,
): Promise<void> {
  const failures = new Map<number, unknown>()
  const rest = variants.entries()
  const worker = async () => {
    for (const [at, variant] of rest) {
      try {
        await runOne(guarantee, lifecycles, variant, running)
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
  running: Map<Variant<T, Outside>, Scenario<T, Outside>>,
): Promise<void> {
  const expected = await lifecycles.baseline(variant.baseline)
  await using scenario = await Scenario.open(lifecycles.subject)
  running.set(variant, scenario)
  try {
    await variant.run(scenario, expected)
  } catch (error) {
    const { after, when } = variant
    const failing = scenario.timeline.rows()
    throw failed({ guarantee, after, when, error, reference: expected.rows, failing })
  } finally {
    running.delete(variant)
  }
}

function withoutDisturbance(guarantee: string, { cause: error, rows }: BaselineError): ConformanceError {
  const after = 'without any disturbance'
  return failed({ guarantee, after, when: undefined, error, reference: rows, failing: [] })
}

function overdue<T extends ApiObject, Outside>(
  guarantee: string,
  deadlineMs: number,
  running: ReadonlyMap<Variant<T, Outside>, Scenario<T, Outside>>,
): ConformanceError {
  const [first] = running
  const waits = [...running].map(
    ([{ when = 'it is not disturbed' }, { waitingFor }]) => `when ${when}: waiting until ${waitingFor}`,
  )
  const details = [
    `the case did not end within ${deadlineMs} ms`,
    ...(waits.length === 0 ? ['in an undisturbed lifecycle'] : waits),
  ].join('\n')
  const error = new Finding(`the case did not end within ${deadlineMs} ms`, details)
  const after = first?.[0].after ?? 'without any disturbance'
  const failing = first?.[1].timeline.rows() ?? []
  return failed({ guarantee, after, when: undefined, error, reference: [], failing })
}
