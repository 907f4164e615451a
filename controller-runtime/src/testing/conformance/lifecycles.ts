import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import { actionOf, kindOf } from './call-action.ts'
import { annotate, type Edit } from './other-writers.ts'
import type { Call, Disturb } from './process-transport.ts'
import { conformanceDefaults, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { OverdueError, Scenario } from './scenario.ts'
import type { Snapshot } from './snapshot.ts'

/**
 * A call to disturb, found in an undisturbed lifecycle. In a disturbed one it is the n-th call of its kind and phase:
 * the calls of several controllers alternate differently each time, and so their overall numbers differ.
 */
export interface CallPoint extends Pick<Call, 'method' | 'phase'> {
  readonly kind: string
  /** From 1. */
  readonly nth: number
  /** For people, for example "creating a part (POST /apis/demo.example.com/v1/parts)". */
  readonly call: string
  /** The actions of the calls before, of the call, and after it. */
  readonly actions: readonly [before: string | undefined, own: string, after: string | undefined]
}

/** The result of an undisturbed lifecycle, which every disturbed one must equal. */
export interface Baseline {
  readonly points: readonly CallPoint[]
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

const empty: Snapshot = { objects: {}, world: null }
const none: Baseline = { points: [], converged: empty, gone: empty, rows: [] }

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
      return await scenario.inTime(this.#live(scenario, name))
    } catch (error) {
      if (error instanceof OverdueError) throw error
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
    await scenario.deleteAll()
    await scenario.gone()
    return {
      points: pointsOf(scenario.process.transport.calls, scenario.models),
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

/** Returns the first calls of each kind and phase. */
function pointsOf(calls: readonly Call[], models: readonly Model[]): readonly CallPoint[] {
  const counts = new Map<string, number>()
  const actions = calls.map(call => actionOf(call, models))
  const points = calls.map((call, at): CallPoint => {
    const { method, path, phase } = call
    const kind = kindOf(call)
    const nth = (counts.get(`${phase} ${kind}`) ?? 0) + 1
    counts.set(`${phase} ${kind}`, nth)
    const own = actions[at] ?? ''
    const again = nth === 1 ? '' : ' again'
    return {
      kind,
      phase,
      nth,
      method,
      call: `${own}${again} (${method} ${path})`,
      actions: [actions[at - 1], own, actions[at + 1]],
    }
  })
  return points.filter(({ nth }) => nth <= conformanceDefaults.callsOfAKind)
}

/** Disturbs only this call. */
export function atCall({ kind, phase, nth }: CallPoint, disturb: Disturb): Disturb {
  let seen = 0
  return (call, carryOut, kill) => {
    if (call.phase !== phase || kindOf(call) !== kind || ++seen !== nth) return carryOut()
    call.isDisturbed = true
    return disturb(call, carryOut, kill)
  }
}

/** Returns when a call happens, for example "between creating a part and writing the status of gadget a". */
export function placeOf({ actions: [before, own, after] }: CallPoint, moment: 'before' | 'after'): string {
  if (moment === 'before') return before === undefined ? `before ${own}` : `between ${before} and ${own}`
  return after === undefined ? `after ${own}` : `between ${own} and ${after}`
}
