import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import { actionOf } from './call-action.ts'
import { annotate, type Edit } from './other-writers.ts'
import type { Call, Disturb } from './process-transport.ts'
import type { ReconcilerUnderTest } from './reconciler-under-test.ts'
import { Scenario } from './scenario.ts'
import type { Snapshot } from './snapshot.ts'

/** The phases of a lifecycle: the object is created and converges, then it is deleted and removed. */
export type Phase = 'converging' | 'deleting'

/** A call of the reconciler in an undisturbed lifecycle. */
export interface CallPoint extends Pick<Call, 'number' | 'method' | 'path'> {
  readonly phase: Phase
  /** For people, for example "creating a part". */
  readonly action: string
}

/** The result of an undisturbed lifecycle, which every disturbed one must equal. */
export interface Baseline {
  readonly calls: readonly CallPoint[]
  readonly converged: Snapshot
  readonly gone: Snapshot
  readonly rows: readonly string[]
}

/** An undisturbed lifecycle failed. */
export class BaselineError extends Error {
  readonly rows: readonly string[]

  constructor(cause: unknown, rows: readonly string[]) {
    super('an undisturbed lifecycle failed', { cause })
    this.rows = rows
  }
}

/** The objects of an undisturbed lifecycle: the first, all, or the first with edits. 'none' runs nothing. */
export type BaselineName = 'one' | 'all' | 'edited' | 'none'

const empty: Snapshot = { objects: {}, outside: null }
const none: Baseline = { calls: [], converged: empty, gone: empty, rows: [] }

/** Runs undisturbed lifecycles of a reconciler, each kind of them once. */
export class Lifecycles<T extends ApiObject, Outside> {
  readonly subject: ReconcilerUnderTest<T, Outside>
  readonly #baselines = new Map<BaselineName, Promise<Baseline>>()

  constructor(subject: ReconcilerUnderTest<T, Outside>) {
    this.subject = subject
  }

  /** @throws BaselineError. */
  baseline(name: BaselineName): Promise<Baseline> {
    const known = this.#baselines.get(name)
    if (known !== undefined) return known
    if (name === 'none') return Promise.resolve(none)
    const baseline = this.#undisturbed(name)
    this.#baselines.set(name, baseline)
    return baseline
  }

  /** Changes of the spec, and of annotations, which only trigger a run. */
  edits(outside: Outside): readonly Edit<T, Outside>[] {
    const { model } = this.subject
    const changes = this.subject.changes?.(outside) ?? []
    return [
      scenario => annotate(scenario, 'edit', 'first'),
      ...changes.map(
        (patch): Edit<T, Outside> =>
          async scenario => {
            const { client, object, timeline } = scenario
            timeline.note(`${model.singular} ${objectKey(object.metadata)} is changed`)
            scenario.passTime()
            await client.patch(model, objectKey(object.metadata), patch)
          },
      ),
      scenario => annotate(scenario, 'edit', 'last'),
    ]
  }

  async #undisturbed(name: BaselineName): Promise<Baseline> {
    await using scenario = await Scenario.open(this.subject)
    try {
      return await this.#live(scenario, name)
    } catch (error) {
      throw new BaselineError(error, scenario.timeline.rows())
    }
  }

  async #live(scenario: Scenario<T, Outside>, name: BaselineName): Promise<Baseline> {
    await scenario.start()
    await scenario.create(name === 'all')
    await scenario.converged()
    for (const edit of name === 'edited' ? this.edits(scenario.outside) : []) {
      await edit(scenario)
      await scenario.converged()
    }
    const converged = await scenario.snapshot()
    const { calls } = scenario.process.transport
    const convergingCalls = calls.length
    await scenario.deleteAll()
    await scenario.gone()
    return {
      calls: calls.map((call, at) => ({
        number: call.number,
        method: call.method,
        path: call.path,
        phase: at < convergingCalls ? 'converging' : 'deleting',
        action: actionOf(call, scenario.models),
      })),
      converged,
      gone: await scenario.snapshot(),
      rows: scenario.timeline.rows(),
    }
  }
}

/**
 * Runs a lifecycle of the first object that disturbs the first process, but not those that replace it. The result
 * must equal that of an undisturbed lifecycle.
 */
export async function disturbed<T extends ApiObject, Outside>(
  scenario: Scenario<T, Outside>,
  expected: Baseline,
  disturb: Disturb,
): Promise<void> {
  await scenario.create()
  await scenario.start({ disturb })
  await scenario.converged(expected.converged)
  await scenario.deleteAll()
  await scenario.gone(expected.gone)
}

/** Disturbs only the call with this number. */
export function atCall(number: number, disturb: Disturb): Disturb {
  return (call, carryOut, kill) => {
    if (call.number !== number) return carryOut()
    call.isDisturbed = true
    return disturb(call, carryOut, kill)
  }
}

/** Returns when a call happens, for example "between creating a part and writing the status of gadget a". */
export function placeOf(
  calls: readonly CallPoint[],
  { number }: CallPoint,
  moment: 'before' | 'after',
): string {
  const first = calls[number - (moment === 'before' ? 2 : 1)]?.action
  const second = calls[number - (moment === 'before' ? 1 : 0)]?.action
  if (first === undefined) return `before ${second}`
  return second === undefined ? `after ${first}` : `between ${first} and ${second}`
}
