import type { ApiObject } from '../../api/object.ts'
import { ConformanceError, failed } from './conformance-error.ts'
import { annotate, type Edit } from './other-writers.ts'
import type { Call, Disturb } from './process-transport.ts'
import { conformanceDefaults, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { Scenario } from './scenario.ts'
import type { Snapshot } from './snapshot.ts'

/** The phases of a lifecycle: the object is created and converges, then it is deleted and removed. */
export type Phase = 'converging' | 'deleting'

/** A call of the reconciler in an undisturbed lifecycle. */
export interface CallPoint extends Pick<Call, 'number' | 'method' | 'path'> {
  readonly phase: Phase
}

/** The result of an undisturbed lifecycle, which every disturbed one must equal. */
interface Baseline {
  readonly calls: readonly CallPoint[]
  readonly converged: Snapshot
  readonly gone: Snapshot
}

/** Runs lifecycles of a reconciler. Undisturbed ones run once and are kept for comparison. */
export class Lifecycles<T extends ApiObject, Outside> {
  readonly subject: ReconcilerUnderTest<T, Outside>
  #one: Promise<Baseline> | undefined
  #all: Promise<Baseline> | undefined
  #edited: Promise<Baseline> | undefined

  constructor(subject: ReconcilerUnderTest<T, Outside>) {
    this.subject = subject
  }

  /** A lifecycle of the first object. */
  one(): Promise<Baseline> {
    this.#one ??= this.#undisturbed(scenario => scenario.create())
    return this.#one
  }

  /** A lifecycle of all objects together. */
  all(): Promise<Baseline> {
    this.#all ??= this.#undisturbed(scenario => scenario.create(true))
    return this.#all
  }

  /** A lifecycle of the first object, which converges after each edit. */
  edited(): Promise<Baseline> {
    this.#edited ??= this.#undisturbed(async scenario => {
      await scenario.create()
      await scenario.converged()
      for (const edit of this.edits(scenario.outside)) {
        await edit(scenario)
        await scenario.converged()
      }
    })
    return this.#edited
  }

  /** Changes of the spec, and of annotations, which only trigger a run. */
  edits(outside: Outside): readonly Edit<T, Outside>[] {
    const { model } = this.subject
    const changes = this.subject.changes?.(outside) ?? []
    return [
      scenario => annotate(scenario, 'edit', 'first'),
      ...changes.map(
        (patch): Edit<T, Outside> =>
          async ({ client, object }) => {
            await client.patch(model, object.metadata.name, patch)
          },
      ),
      scenario => annotate(scenario, 'edit', 'last'),
    ]
  }

  async #undisturbed(begin: (scenario: Scenario<T, Outside>) => Promise<void>): Promise<Baseline> {
    await using scenario = await Scenario.open(this.subject)
    try {
      return await this.#live(scenario, begin)
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error)
      throw new ConformanceError(`in an undisturbed lifecycle: ${what}`, { cause: error })
    }
  }

  async #live(
    scenario: Scenario<T, Outside>,
    begin: (scenario: Scenario<T, Outside>) => Promise<void>,
  ): Promise<Baseline> {
    await scenario.start()
    await begin(scenario)
    await scenario.converged()
    const converged = await scenario.snapshot()
    const { calls } = scenario.process.transport
    const converging = calls.map(call => ({ ...call, phase: 'converging' as const }))
    await scenario.deleteAll()
    await scenario.gone()
    const deleting = calls.slice(converging.length).map(call => ({ ...call, phase: 'deleting' as const }))
    return { calls: [...converging, ...deleting], converged, gone: await scenario.snapshot() }
  }

  /**
   * Runs a lifecycle of the first object in which the first process is disturbed, but not those that replace it. The
   * result must equal that of an undisturbed lifecycle.
   */
  async disturbed(makeDisturb: (scenario: Scenario<T, Outside>) => Disturb): Promise<void> {
    const expected = await this.one()
    await using scenario = await Scenario.open(this.subject)
    await scenario.create()
    await scenario.start({ disturb: makeDisturb(scenario) })
    await scenario.converged()
    await scenario.expectSnapshot(expected.converged)
    await scenario.deleteAll()
    await scenario.gone()
    await scenario.expectSnapshot(expected.gone)
  }
}

/** One disturbed lifecycle. */
export interface Variant {
  /** Follows "when", for example "it dies before call 2 (PATCH ...)". */
  readonly when: string
  run(): Promise<void>
}

/** Runs all variants, some concurrently. @throws ConformanceError of the first failed variant, in order. */
export async function runVariants(guarantee: string, variants: readonly Variant[]): Promise<void> {
  const failures = new Map<number, unknown>()
  const rest = variants.entries()
  const worker = async () => {
    for (const [at, variant] of rest) {
      try {
        await variant.run()
      } catch (error) {
        failures.set(at, error)
      }
      if (failures.size > 0) return
    }
  }
  await Promise.all(Array.from({ length: conformanceDefaults.concurrency }, worker))
  const first = Math.min(...failures.keys())
  if (failures.size > 0) throw failed(guarantee, variants[first]?.when, failures.get(first))
}

/** Disturbs only the call with this number. */
export function atCall(number: number, disturb: Disturb): Disturb {
  return (call, carryOut, kill) => (call.number === number ? disturb(call, carryOut, kill) : carryOut())
}
